from cnnpool.run_folder.pages import charts


def test_headlines_have_two_charts_and_numbers_for_files_none():
    assert charts("val/accuracy", "file") == ["val/accuracy", "a first look/accuracy/val"]
    tag = "gradient/zero_fraction/s1"
    assert charts(tag, "compare") == [tag, f"a first look/{tag}"]
    assert charts("gradient/zero_fraction_of_ours/s1", "probe") == ["gradient/zero_fraction_of_ours/s1"]
    assert charts("gradient/hoyer/s1", "file") == []
