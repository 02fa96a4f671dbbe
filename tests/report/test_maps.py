"""Maps of the choices: means over seeds, in one colour scale that fits all of them."""

import numpy as np
import pytest

from cnnpool.report.comparison import compare
from cnnpool.report.plots import maps
from cnnpool.report.plots.maps import routing
from cnnpool.report.runs import find
from cnnpool.run_folder.layout import ROUTING
from cnnpool.run_folder.routing import Routing, write

SHIFTS = [[[0.2, 0.5, 0.2], [0.5, 0.8, 0.5], [0.2, 0.5, 0.2]], [[0.8] * 3] * 3]
WINNERS = [[0.4, 0.3, 0.2, 0.1], [0.2, 0.3, 0.4, 0.1]]
TIED = [1.0, 0.0, 0.0, 0.0]


def compared(shelf, winners=WINNERS):
    for seed in (0, 1):
        invariance = {"accuracy_over_shifts": SHIFTS[seed], "stages": {}, "map_samples": 64}
        windows = {
            "winners": winners[seed],
            "winners_untied": winners[seed],
            "winners_tied": TIED,
            "samples": 8,
        }
        shelf.put(seed=seed, invariance=invariance, gradient={"s1": windows})
        shelf.put("avg", pool="avg", seed=seed, invariance=invariance, gradient={}) if seed == 0 else None
    return compare(find([str(shelf.root)]))


def panels(figure):
    return [axes for axes in figure.axes if axes.images and axes.get_label() != "<colorbar>"]


def words(axes):
    return " ".join(text.get_text() for text in axes.texts)


def test_maps_are_means_over_the_seeds(shelf):
    first, second = (row.choice for row in compared(shelf).rows)
    assert maps.mean_map(first, maps.over_shifts) == pytest.approx(np.mean(SHIFTS, axis=0))
    assert maps.mean_map(second, maps.over_shifts) == pytest.approx(np.array(SHIFTS[0]))
    windows = [
        maps.mean_map(choice, lambda run: maps.of_window(run, "s1", "winners")) for choice in (first, second)
    ]
    assert windows[0] == pytest.approx(np.array([[0.3, 0.3], [0.3, 0.1]]))
    assert windows[1] is None


def test_windows_of_different_sizes_have_no_common_map(shelf):
    comparison = compared(shelf, [[0.25] * 4, [1 / 9] * 9])
    first = comparison.rows[0].choice
    assert maps.mean_map(first, lambda run: maps.of_window(run, "s1", "winners_untied")) is None
    # Those of tied windows are alike.
    assert [words(axes) for axes in panels(maps.winners(comparison)[0])] == ["100 0 0 0"]


def test_maps_of_all_choices_have_one_scale_from_the_smallest_to_the_largest_value(shelf):
    figure, caption = maps.shifts(compared(shelf))
    every = panels(figure)
    assert [axes.get_title() for axes in every] == ["max (n=2)", "avg (n=1)"]
    # max: corners (.2 + .8) / 2, edges (.5 + .8) / 2, centre .8; avg: .2 to .8.
    assert {axes.images[0].get_clim() for axes in every} == {(0.2, 0.8)}
    assert words(every[0]) == "50 65 50 65 80 65 50 65 50"
    [bar] = [axes for axes in figure.axes if axes.get_label() == "<colorbar>"]
    assert bar.get_ylabel() == "accuracy of shifted images (%)"
    assert "means over seeds, each of 64 images" in caption


def test_untied_and_tied_windows_have_panels_and_scales_of_their_own(shelf):
    figure, caption = maps.winners(compared(shelf))
    untied, tied = panels(figure)
    assert (words(untied), words(tied)) == ("30 30 30 10", "100 0 0 0")
    assert untied.images[0].get_clim() == pytest.approx((0.1, 0.3))
    assert tied.images[0].get_clim() == (0, 1)
    assert untied.get_ylabel() == "max (n=2)"
    bars = [axes.get_xlabel() for axes in figure.axes if axes.get_label() == "<colorbar>"]
    assert bars == ["windows with one maximum: won (%)", "tied windows: won (%)"]
    assert "each of 8 images" in caption


def test_runs_that_do_not_tell_tied_windows_apart_have_one_panel(shelf):
    for seed in (0, 1):
        shelf.put(seed=seed, gradient={"s1": {"winners": WINNERS[seed]}})
    [axes] = panels(maps.winners(compare(find([str(shelf.root)])))[0])
    assert words(axes) == "30 30 30 10"


def test_without_maps_there_is_no_figure(shelf):
    shelf.put()
    comparison = compare(find([str(shelf.root)]))
    assert maps.shifts(comparison) is None and maps.winners(comparison) is None
    assert routing(comparison) is None


@pytest.fixture
def routed(shelf):
    """max and avg with two seeds of other gradient, aps without a picture, blur with a damaged one."""
    images = np.arange(2 * 4 * 4, dtype=np.uint8).reshape(2, 4, 4, 1)
    for pool, share in (("max", 0.25), ("avg", 1.0), ("aps", None), ("blur", 0.5)):
        for seed in (0, 1):
            folder = shelf.put(pool=pool, seed=seed)
            if share is not None:
                write(folder, Routing(images, {"s1": np.full((2, 2, 2), share / (1 + seed))}))
            if pool == "blur":
                (folder / ROUTING).write_bytes(b"PK")
    return compare(find([str(shelf.root)]))


def test_routing_shows_images_and_where_gradient_goes_choice_under_choice(routed):
    figure, caption = routing(routed)
    images, *choices = panels(figure)
    assert [axes.get_ylabel() for axes in (images, *choices)] == ["image", "max", "avg"]
    assert images.get_title() == "stage s1"
    # Two images of four pixels with a transparent one between them.
    red, green, blue, opacity = np.moveaxis(images.images[0].get_array()[0], -1, 0)
    assert red.tolist() == green.tolist() == blue.tolist() == [0, 1, 2, 3, 0, 16, 17, 18, 19]
    assert opacity.tolist() == [255] * 4 + [0] + [255] * 4
    # Of the first seed, in steps of 1/255.
    of_max, of_avg = (axes.images[0].get_array().filled(np.nan) for axes in choices)
    assert of_max == pytest.approx(
        np.array([[0.251, 0.251, np.nan, 0.251, 0.251]] * 2), abs=1e-3, nan_ok=True
    )
    assert np.nanmin(of_avg) == 1.0
    assert {axes.images[0].get_clim() for axes in choices} == {(0, 1)}
    assert "2 test images" in caption and "first seed" in caption


def test_choices_of_other_images_are_not_shown_beside_them(routed, shelf):
    other = np.zeros((2, 4, 4, 1), np.uint8)
    write(shelf.root / "avg" / "seed0", Routing(other, {"s1": np.ones((2, 2, 2))}))
    assert [axes.get_ylabel() for axes in panels(routing(routed)[0])] == ["image", "max"]
