"""Where the gradient goes, choice under choice."""

import numpy as np
import pytest

from cnnpool.report.comparison import compare
from cnnpool.report.plots.stages import routing
from cnnpool.report.runs import find
from cnnpool.run_folder.layout import ROUTING
from cnnpool.run_folder.routing import Routing, write


def panels(figure):
    return [axes for axes in figure.axes if axes.images and axes.get_label() != "<colorbar>"]


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
