"""Maps of the choices: means over seeds, drawn with the same colours everywhere."""

import numpy as np
import pytest

from cnnpool.report import maps
from cnnpool.report.comparison import compare
from cnnpool.report.runs import find

SHIFTS = [[[0.0, 0.5, 0.0], [0.5, 1.0, 0.5], [0.0, 0.5, 0.0]], [[1.0] * 3] * 3]
WINNERS = [[0.4, 0.3, 0.2, 0.1], [0.2, 0.3, 0.4, 0.1]]


def compared(shelf, winners=WINNERS):
    for seed in (0, 1):
        invariance = {"accuracy_over_shifts": SHIFTS[seed], "stages": {}}
        shelf.put(seed=seed, invariance=invariance, gradient={"s1": {"winners": winners[seed]}})
        shelf.put("avg", pool="avg", seed=seed, invariance=invariance, gradient={}) if seed == 0 else None
    return compare(find([str(shelf.root)]))


def test_maps_are_means_over_the_seeds(shelf):
    first, second = (maps.maps(row.choice) for row in compared(shelf).rows)
    assert first[maps.ACCURACY] == pytest.approx(np.mean(SHIFTS, axis=0))
    assert first["windows won at s1 (%)"] == pytest.approx(np.array([[0.3, 0.3], [0.3, 0.1]]))
    assert second.keys() == {maps.ACCURACY}
    assert second[maps.ACCURACY] == pytest.approx(np.array(SHIFTS[0]))


def test_windows_of_different_sizes_have_no_common_map(shelf):
    first = maps.maps(compared(shelf, [[0.25] * 4, [1 / 9] * 9]).rows[0].choice)
    assert first.keys() == {maps.ACCURACY}


def test_every_panel_has_the_same_limits_and_its_numbers(shelf):
    rows = {row.choice.label: maps.maps(row.choice) for row in compared(shelf).rows}
    drawn = maps.figure(rows)
    panels = [axes for axes in drawn.axes if axes.images]
    assert [axes.get_title() for axes in panels] == [
        f"max\n{maps.ACCURACY}", f"avg\n{maps.ACCURACY}", "max\nwindows won at s1 (%)",
    ]  # fmt: skip
    assert {axes.images[0].get_clim() for axes in panels} == {(0, 1)}
    # By rows: the corners of (SHIFTS[0] + SHIFTS[1]) / 2 are 50 %, its edges 75 %, its centre 100 %.
    assert " ".join(text.get_text() for text in panels[0].texts) == "50 75 50 75 100 75 50 75 50"
    assert " ".join(text.get_text() for text in panels[2].texts) == "30 30 30 10"


def test_without_maps_there_is_no_figure():
    assert maps.figure({"max": {}}) is None
    assert maps.figure({}) is None
