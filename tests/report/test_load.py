import pytest

from cnnpool.report import find, main
from cnnpool.report.columns import measure_columns
from cnnpool.report.comparison import compare

COST = {"parameters": 61706, "train_images_per_s": 12_300.0, "wall_s": 12.5}


def of(shelf, *loads):
    for seed, load in enumerate(loads):
        for pool in ("max", "avg"):
            shelf.put(pool=pool, seed=seed, cost=COST if load == "unsaid" else COST | {"load": load})
    return compare(find([shelf.root]))


def headers(comparison):
    return [
        column.header
        for column in measure_columns(comparison)
        if "/s" in column.header or "time" in column.header
    ]


def test_times_of_a_free_machine_are_not_marked(shelf):
    comparison = of(shelf, 0.0, 0.1)
    assert comparison.loaded == "" and comparison.notes == []
    assert headers(comparison) == ["images/s", "wall time (s)"]


def test_times_of_a_loaded_machine_are_marked_and_explained(shelf, capsys):
    comparison = of(shelf, 0.05, 0.63)
    said = (
        "images/s and wall time: unreliable, since other programs took more than 10 % of the processors "
        "during 2 of 4 runs, up to 63 %"
    )
    assert comparison.loaded == said
    assert comparison.notes == [f"† {said}"]
    assert headers(comparison) == ["images/s †", "wall time (s) †"]
    assert main([str(shelf.root)]) == 0
    assert f"† {said}\n" in capsys.readouterr().out
    assert f"<p>† {said}.</p>" in (shelf.root / "report" / "report.html").read_text()


@pytest.mark.parametrize("load", ["unsaid", None])
def test_runs_that_do_not_say_are_not_trusted(shelf, load):
    comparison = of(shelf, 0.0, load)
    assert "not known to be reliable, since 2 of 4 runs do not say" in comparison.loaded
    assert headers(comparison) == ["images/s †", "wall time (s) †"]


def test_a_time_as_the_metric_is_marked_too(shelf):
    of(shelf, 0.5)
    comparison = compare(find([shelf.root]), metric="cost.wall_s")
    assert comparison.loaded.startswith("wall time and images/s: unreliable")


def test_without_times_nothing_is_said(shelf):
    shelf.put(cost={"parameters": 61706})
    assert compare(find([shelf.root])).loaded == ""
