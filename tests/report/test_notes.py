import math
import runpy
from dataclasses import replace
from pathlib import Path

from shelf import QUANTITIES, finished

from cnnpool.probe import declared
from cnnpool.probe.consistency import PRESETS
from cnnpool.quantity import records
from cnnpool.report import main
from cnnpool.report.comparison import compare
from cnnpool.report.document import glossary, headline, ran
from cnnpool.report.foreign import read


def runs_of(accuracies, flops, **sections):
    for pool, accuracy in accuracies.items():
        for seed in range(8):
            test = {"accuracy": accuracy + 0.001 * ((seed * (len(pool) + 3)) % 5), "loss": 1.0}
            measured = {"test": test, "cost": {"flops": flops[pool]}, **sections}
            yield finished(pool, seed, measured, quantities=records(QUANTITIES, measured))


def test_a_win_by_more_arithmetic_is_named_with_its_control():
    accuracies = {"max": 0.5, "conv_blur": 0.9, "conv_pool": 0.7, "avg": 0.8, "strided": 0.3}
    flops = {"max": 100, "conv_blur": 179, "conv_pool": 175, "avg": 105, "strided": 300}
    notes = compare([*runs_of(accuracies, flops)]).notes
    assert "conv_blur is better with 79 % more FLOPs than max; of equal cost here: conv_pool" in notes
    assert "conv_pool is better with 75 % more FLOPs than max; of equal cost here: conv_blur" in notes
    assert not any(note.startswith(("avg", "strided")) for note in notes)
    notes = compare([*runs_of({"max": 0.5, "conv_blur": 0.9}, flops)]).notes
    assert notes == ["conv_blur is better with 79 % more FLOPs than max; no choice here costs as much"]


def test_a_cost_that_the_baseline_does_not_have_is_given_as_it_is():
    found = compare([*runs_of({"max": 0.5, "conv_blur": 0.9}, {"max": 0, "conv_blur": 179})])
    assert not found.notes and "Cost: 0 FLOPs for max; 179 for conv_blur." in headline(found)
    found = compare([*runs_of({"max": 0.5, "avg": 0.9}, {"max": math.nan, "avg": 179})])
    assert not found.notes and "Cost: unknown FLOPs for max; 179 for avg." in headline(found)


def test_windows_that_differ_from_the_baselines_are_named(shelf):
    for pool, size in {"max": 2, "lp": 2, "avg": 3}.items():
        shelf.put(pool={"name": pool, "kernel_size": size})
    shelf.put(pool={"name": "none"})
    runs = read([shelf.root])
    assert "pooling windows differ from the 2 of max: avg 3" in compare(runs).notes
    assert not any("windows" in note for note in compare(runs, against="none").notes)


def test_circular_shifts_of_networks_that_are_not_circular_are_named():
    for padding, said in (["zeros"], 1), (["circular"], 0), (["none"], 0):
        section = {"consistency": {"distinct": 0.9}, "model_padding": padding}
        runs = runs_of({"max": 0.5, "avg": 0.5}, {"max": 1, "avg": 1}, invariance=section)
        found = [note for note in compare([*runs]).notes if note.startswith("consistency by circular shifts")]
        assert len(found) == said and all("pad with zeros" in note for note in found)


COUNTS = {"classes": ["a", "b", "c"], "train": [1, 1, 1], "val": [0, 0, 0], "test": [30, 60, 30]}


def test_a_choice_that_learned_nothing_is_named(shelf):
    for seed in (0, 1):
        shelf.put(accuracy=0.5, seed=seed, images=COUNTS)
        shelf.put(pool="avg", accuracy=0.9, seed=seed, images=COUNTS)
        # Without counts of images nobody knows.
        shelf.put(pool="blur", accuracy=0.1, seed=seed)
    found = compare(read([shelf.root]), against="avg")
    counted = [run.results for run in found.compared if run.results.images]
    assert ran(counted)[0] == (
        "Data",
        "digits, 3 train images, 0 val images, 120 test images, sha256 0123456789ab",
    )
    assert ("Probes", "none") in ran([replace(one, asked={}) for one in counted])
    assert found.notes == [
        "max: no better than always predicting one class with seed 0, 1, which makes consistency meaningless"
    ]


COST = {"parameters": 61706, "train_images_per_s": 12_300.0, "wall_s": 12.5}


def of(shelf, *loads):
    for seed, load in enumerate(loads):
        for pool in ("max", "avg"):
            shelf.put(pool=pool, seed=seed, cost=COST | {"load": load})
    return compare(read([shelf.root]))


def test_times_of_a_loaded_machine_are_said_to_be_unreliable(shelf, capsys):
    comparison = of(shelf, 0.05, 0.63)
    said = (
        "images/s and wall time: unreliable, since other processes, such as other runs, took more than 10 % "
        "of the processors during 2 of 4 runs, up to 63 %"
    )
    assert comparison.loaded == said
    assert comparison.notes == [said]
    assert main([str(shelf.root)]) == 0
    assert f"  {said}\n" in capsys.readouterr().out
    assert f"<li>{said}</li>" in (shelf.root / "report" / "report.html").read_text()


def test_times_of_a_free_machine_are_trusted_and_of_runs_that_do_not_say_not(shelf):
    assert of(shelf, 0.0, 0.1).loaded == ""
    shelf.put(seed=2, cost=COST)
    loaded = compare(read([shelf.root])).loaded
    assert "not known to be reliable, since 1 of 5 runs do not say" in loaded


ROOT = Path(__file__).parents[2]


def test_the_page_is_what_the_script_writes():
    page = runpy.run_path(str(ROOT / "scripts" / "docs" / "glossary.py"))["glossary"]()
    assert (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8") == page
    for one in declared():
        key = [("<preset>" if part in PRESETS else part) for part in one.key.split(".")]
        assert f"`{'.'.join(key)}`" in page
    assert all(f"| `{name}` | {preset.source} |" in page for name, preset in PRESETS.items())


def test_everything_that_a_table_shows_is_defined_under_it(shelf):
    shelf.sweep(max=[0.9, 0.91], avg=[0.8, 0.81])
    comparison = compare(read([shelf.root]))
    words = dict(glossary(comparison))
    for one in (comparison.metric, *comparison.measures):
        assert words[one.quantity.title.replace("<px>", "d")].startswith(one.quantity.definition)
    assert words["test accuracy"].endswith("Higher is better.")
    assert "every circular shift of up to 1 px each way" in words["worst-shift accuracy"]
    assert "relative change at d px" in words and "<" not in "".join(words)
    assert main([str(shelf.root)]) == 0
    page = (shelf.root / "report" / "report.html").read_text()
    assert "Glossary" in page and words["FLOPs"] in page
