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


def panels(figure):
    return [axes for axes in figure.axes if axes.images and axes.get_label() != "<colorbar>"]


def test_maps_of_all_choices_are_means_in_one_scale_from_the_smallest_to_the_largest_value(shelf):
    for seed, pool in ((0, "max"), (1, "max"), (0, "avg")):
        invariance = {"accuracy_over_shifts": SHIFTS[seed], "stages": {}, "map_samples": 64}
        shelf.put(pool=pool, seed=seed, invariance=invariance)
    figure, caption = maps.shifts(compare(find([str(shelf.root)])))
    every = panels(figure)
    assert [axes.get_title() for axes in every] == ["max (n=2)", "avg (n=1)"]
    # max: corners (.2 + .8) / 2, edges (.5 + .8) / 2, centre .8; avg: .2 to .8.
    assert {axes.images[0].get_clim() for axes in every} == {(0.2, 0.8)}
    assert " ".join(text.get_text() for text in every[0].texts) == "50 65 50 65 80 65 50 65 50"
    [bar] = [axes for axes in figure.axes if axes.get_label() == "<colorbar>"]
    assert bar.get_ylabel() == "accuracy of shifted images (%)"
    assert "means over seeds, each of 64 images" in caption


def test_without_maps_of_one_size_there_is_no_figure(shelf):
    shelf.put()
    shelf.put(pool="avg", invariance={"accuracy_over_shifts": [[0.5, "x"], [{}, 1]]})
    for seed, size in ((0, 3), (1, 5)):
        shelf.put(pool="blur", seed=seed, invariance={"accuracy_over_shifts": [[0.5] * size] * size})
    comparison = compare(find([str(shelf.root)]))
    assert maps.shifts(comparison) is None and routing(comparison) is None


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
