from cnnpool.probe import declared
from cnnpool.quantity import Quantity, find, records
from cnnpool.run_folder.pages import charts, headlines, pages

OWN = (
    Quantity("loudness.stages.<stage>.level", "loudness", "Mean output.", headline=True),
    Quantity("loudness.silent", "silent images", "Images without any output."),
    Quantity("loudness.raw", "raw", "For files.", shown="file"),
)
QUANTITIES = [*declared(), *OWN]


def of(key):
    return charts(find(QUANTITIES, key).tag_of(key), find(QUANTITIES, key))


def test_headlines_have_two_charts_and_numbers_for_files_none():
    assert of("val.accuracy") == ["val/accuracy", "a_first_look/accuracy/val"]
    tag = "gradient/zero_fraction/s1"
    assert of("gradient.s1.zero_fraction") == [tag, f"a_first_look/{tag}"]
    [before] = of("gradient.s1.before_activation.zero_fraction")
    assert before == "gradient/before_activation/zero_fraction/s1"
    assert of("gradient.s1.hoyer") == of("loudness.raw") == []
    assert of("val.loss") == ["val/loss"] and charts("unknown/number", None) == ["unknown/number"]


def test_a_probe_of_another_package_has_its_first_look_and_page_and_place_in_the_row():
    tag = "loudness/level/s1"
    assert of("loudness.stages.s1.level") == [tag, f"a_first_look/{tag}"]
    tags = ["aliasing/alias_energy_ratio/s1", "loudness/silent", tag]
    tags += ["test/accuracy", "train/loss", "val/accuracy"]
    assert pages(tags, QUANTITIES) == {
        "accuracy": ["val/accuracy", "test/accuracy", "train/loss"],
        "loudness": [tag, "loudness/silent"],
    }
    measured = {
        "cost": {"parameters": 7, "flops": 9},
        "gradient": {"s1": {"zero_fraction": 0.7, "coverage": 1.0}, "s2": {"zero_fraction": 0.8}},
        "loudness": {"silent": 0.1, "stages": {"s1": {"level": 2.0}, "s2": {"level": 3.0}}},
        "test": {"accuracy": 0.9, "loss": 0.3},
        "val": {"accuracy": 0.8},
    }
    assert list(headlines(measured, records(QUANTITIES, measured)).items()) == [
        *(("test/accuracy", 0.9), ("test/loss", 0.3), ("gradient/zero_fraction/s1", 0.7), (tag, 2.0)),
        ("cost/parameters", 7),
    ]
