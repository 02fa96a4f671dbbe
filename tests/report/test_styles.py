import itertools

import numpy as np
import pytest

from cnnpool.report import find
from cnnpool.report.comparison import compare
from cnnpool.report.plots.styles import COLOURS, MOST, ON_DARK, of_all, shown, style_of, styles_of

# To linear light, to cones, to OKLab (Ottosson 2020); deficits of full severity (Machado et al. 2009).
CONES = [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
         [0.0883024619, 0.2817188376, 0.6299787005]]  # fmt: skip
LAB = [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
       [0.0259040371, 0.7827717662, -0.8086757660]]  # fmt: skip
DEFICITS = {
    "none": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                   [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                     [-0.011820, 0.042940, 0.968881]],
}  # fmt: skip


def seen(colour, deficit):
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    light = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    light = np.clip(np.array(DEFICITS[deficit]) @ light, 0, 1)
    return np.array(LAB) @ np.cbrt(np.array(CONES) @ light)


def test_no_two_colours_look_alike():
    # A just noticeable difference is about 0.02.
    for deficit, least in (("none", 0.09), ("protanopia", 0.05), ("deuteranopia", 0.05)):
        for colours in (COLOURS, ON_DARK):
            every = [seen(colour, deficit) for colour in colours]
            pairs = itertools.combinations(every, 2)
            assert min(np.linalg.norm(one - other) for one, other in pairs) > least


def luminance(colour):
    rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]


def test_every_colour_is_seen_on_white_and_its_partner_on_dark_grey():
    for colour, on_dark in zip(COLOURS, ON_DARK, strict=True):
        assert 1.05 / (luminance(colour) + 0.05) > 2
        assert (luminance(on_dark) + 0.05) / (luminance("#303030") + 0.05) > 2


def test_looks_of_a_legend_differ_in_colour_and_all_looks_differ():
    assert len({style_of(index).colour for index in range(len(COLOURS))}) == len(COLOURS) >= 2 * MOST
    assert len({style_of(index) for index in range(10 * len(COLOURS))}) == 10 * len(COLOURS)
    assert len({(style_of(index).colour, style_of(index).mark) for index in range(240)}) == 240


@pytest.fixture(scope="module")
def many(new_shelf, tmp_path_factory):
    """Thirty choices, the later the better, max in their middle."""
    shelf = new_shelf(tmp_path_factory.mktemp("many"))
    names = [f"p{n:02d}" if n != 15 else "max" for n in range(30)]
    shelf.sweep(**{name: [0.5 + n / 100, 0.5 + n / 100] for n, name in enumerate(names)})
    return compare(find([shelf.root]))


def test_of_many_choices_the_baseline_and_the_best_are_shown_in_colours_of_their_own(many):
    labels = [row.choice.label for row in shown(many)]
    assert labels == ["max", *(f"p{n}" for n in range(19, 30))]
    of_each = styles_of(many)
    assert len({of_each[label].colour for label in labels}) == MOST
    assert of_each.keys() == {row.choice.label for row in many.rows}
    assert of_all(many) == " Shown: max and the 11 best of the 29 others; tables hold all."
