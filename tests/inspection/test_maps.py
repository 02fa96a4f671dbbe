"""The figures that measurements are drawn as."""

import itertools

import pytest
import torch

from cnnpool.explain.maps import field_figure, routing_figure, shift_figure, winner_figure, winner_panels


def panels(figure):
    return [axes for axes in figure.axes if axes.get_images() and axes.get_label() != "<colorbar>"]


def test_every_map_has_its_panel_the_same_limits_and_pixels_from_the_centre():
    maps = {f"s{n}": [[0.1 * n] * 5 for _ in range(5)] for n in range(1, 6)}
    figure = shift_figure(maps, "accuracy", limits=(0, 0.5))
    drawn = panels(figure)
    assert [axes.get_title() for axes in drawn] == list(maps)
    for axes, values in zip(drawn, maps.values(), strict=True):
        (picture,) = axes.get_images()
        assert picture.get_clim() == (0, 0.5)
        assert tuple(picture.get_extent()) == (-2.5, 2.5, 2.5, -2.5)
        assert picture.get_array().tolist() == values
    # Five panels stand in rows of four.
    assert figure.get_figheight() > figure.get_figwidth() / 2


def test_fields_are_drawn_as_roots():
    (axes,) = panels(field_figure({"s1": [[0.25, 1.0], [0.0, 0.04]]}, "field"))
    assert axes.get_images()[0].get_array().tolist() == [[0.5, 1.0], [0.0, pytest.approx(0.2)]]


def test_winners_stand_in_their_places_in_percent():
    (axes,) = panels(winner_figure({"s1": [0.75, 0.125, 0.125, 0.0]}))
    written = {text.get_position(): text.get_text() for text in axes.texts}
    assert written == {(0, 0): "75.0", (1, 0): "12.5", (0, 1): "12.5", (1, 1): "0.0"}


def test_tied_and_untied_windows_have_panels_of_their_own():
    s1 = {"winners": [0.5, 0.5], "winners_untied": [0.25, 0.75], "winners_tied": [1.0, 0.0], "samples": 8}
    assert winner_panels({"s1": s1, "s3": {"samples": 8}}) == {
        "s1:\nuntied windows won (%)": [0.25, 0.75],
        "s1:\ntied windows won (%)": [1.0, 0.0],
    }


def test_routing_shows_the_share_of_channels_with_gradient():
    gradient = torch.zeros(2, 4, 1, 2)
    gradient[1, :3, 0, 1] = -1.0
    figure = routing_figure(torch.rand(2, 3, 4, 4), {"s1": gradient})
    shown = [axes.get_images()[0].get_array() for axes in panels(figure)]
    assert len(shown) == 4 and shown[0].shape == (4, 4, 3)
    assert shown[2].tolist() == [[0.0, 0.0]] and shown[3].tolist() == [[0.0, 0.75]]


def test_long_names_of_stages_neither_overlap_nor_are_cut():
    names = [f"layer{i}_0_downsample_{j}" for i in range(1, 5) for j in range(2)]
    figure = routing_figure(torch.rand(2, 1, 8, 8), {name: torch.ones(2, 1, 4, 4) for name in names})
    figure.draw_without_rendering()
    labels = [axes.yaxis.label for axes in figure.axes if axes.get_ylabel() in names]
    boxes = [label.get_window_extent() for label in labels]
    assert [label.get_text() for label in labels] == names
    assert all(box.width > box.height for box in boxes)
    assert all(above.y0 > below.y1 for above, below in itertools.pairwise(boxes))
    assert all(box.x0 >= 0 and box.y0 >= 0 and box.y1 <= figure.bbox.height for box in boxes)


def test_titles_of_neighbouring_winner_maps_do_not_overlap():
    maps = {f"layer4_{i}_downsample_0": {"winners_tied": [0.25] * 4} for i in range(3)}
    figure = winner_figure(winner_panels(maps))
    figure.draw_without_rendering()
    boxes = [axes.title.get_window_extent() for axes in panels(figure)]
    assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))
