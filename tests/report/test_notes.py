from dataclasses import replace

import pytest

from cnnpool.probe import declared
from cnnpool.quantity import records
from cnnpool.report.comparison import compare
from cnnpool.report.runs import Run
from cnnpool.run_folder.results import Results

FACTS = {"readout": {"name": "gap"}, "model": {"name": "net"}, "data": {"name": "digits"}}


def runs_of(folder, accuracies, flops, **sections):
    found = []
    for pool, accuracy in accuracies.items():
        for seed in range(8):
            test = {"accuracy": accuracy + 0.001 * ((seed * (len(pool) + 3)) % 5), "loss": 1.0}
            measured = {"test": test, "cost": {"flops": flops[pool]}, **sections}
            one = Results(pool={"name": pool}, seed=seed, epochs=1, measured=measured, **FACTS)
            one = replace(one, quantities=records(declared(), measured))
            found.append(Run(folder / pool / str(seed), "done", found=one))
    return found


def test_a_win_by_more_arithmetic_is_named_with_its_control(tmp_path):
    accuracies = {"max": 0.5, "conv_blur": 0.9, "conv_pool": 0.7, "avg": 0.8}
    flops = {"max": 100, "conv_blur": 179, "conv_pool": 175, "avg": 105}
    notes = compare(runs_of(tmp_path, accuracies, flops)).notes
    assert "conv_blur is better with 79 % more FLOPs than max; of equal cost here: conv_pool" in notes
    assert "conv_pool is better with 75 % more FLOPs than max; of equal cost here: conv_blur" in notes
    assert not any(note.startswith("avg") for note in notes)


def test_a_win_without_a_control_says_so_and_a_loss_says_nothing(tmp_path):
    accuracies = {"max": 0.5, "conv_blur": 0.9, "strided": 0.3}
    notes = compare(runs_of(tmp_path, accuracies, {"max": 100, "conv_blur": 150, "strided": 150})).notes
    assert "conv_blur is better with 50 % more FLOPs than max; of equal cost here: strided" in notes
    accuracies.pop("strided")
    notes = compare(runs_of(tmp_path, accuracies, {"max": 100, "conv_blur": 150})).notes
    assert notes == ["conv_blur is better with 50 % more FLOPs than max; no choice here costs as much"]


@pytest.mark.parametrize(("padding", "said"), [(["zeros"], 1), (["circular"], 0), (["none"], 0)])
def test_circular_shifts_of_networks_that_are_not_circular_are_named(tmp_path, padding, said):
    section = {"consistency": {"distinct": 0.9}, "model_padding": padding}
    runs = runs_of(tmp_path, {"max": 0.5, "avg": 0.5}, {"max": 1, "avg": 1}, invariance=section)
    found = [note for note in compare(runs).notes if note.startswith("consistency by circular shifts")]
    assert len(found) == said and all("pad with zeros" in note for note in found)
