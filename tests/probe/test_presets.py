from typing import get_args

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from cnnpool.probe.consistency import PRESETS, PresetName


def draw(name, n=4000, size=(16, 12)):
    return PRESETS[name].draw(n, size, torch.Generator().manual_seed(0))


def test_the_option_offers_every_preset():
    assert set(get_args(PresetName)) == set(PRESETS)


def test_pairs_are_drawn_for_each_image_or_each_batch():
    for name, preset in PRESETS.items():
        first, second = draw(name)
        if preset.per_image:
            assert first.unique(dim=0).shape[0] == {"distinct": 49, "one_px": 4}[name]
        else:
            assert first[: preset.batch].unique(dim=0).shape[0] == 1
            assert first.unique(dim=0).shape[0] > 1 or preset.border in ("crop", "enlarged")
        if preset.distinct:
            assert (first != second).any(1).all()


OFFSETS = {
    **{"zhang_imagenet": range(32), "zhang_cifar": range(32), "aps_imagenet": range(-32, 32)},
    **dict.fromkeys(("aps_cifar", "aps_crop", "lps_cifar", "lps_crop"), range(-3, 3)),
    **{"tips": range(-8, 9), "tips_fill": range(-8, 9), "flc_cifar": range(4)},
    **{"distinct": range(-3, 4), "one_px": range(2)},
}


@pytest.mark.parametrize("name", PRESETS)
def test_offsets_are_those_of_the_paper(name):
    preset, size = PRESETS[name], {"zhang_imagenet": 256, "aps_imagenet": 224}.get(name, 32)
    assert range(preset.bounds(size)[0], preset.bounds(size)[1] + 1) == OFFSETS[name]
    first, second = preset.draw(256 * 400, (size, size), torch.Generator().manual_seed(0))
    assert torch.cat((first, second)).unique().tolist() == list(OFFSETS[name])


def test_distinct_second_views_are_uniform_over_the_others():
    first, second = draw("distinct", 48000, (9, 9))
    apart = (second - first) % 7
    counts = torch.bincount(apart[:, 0] * 7 + apart[:, 1], minlength=49)
    assert counts[0] == 0
    # 48,000 draws over 48 differences: 1,000 each, standard deviation 31.3.
    assert (counts[1:] - 1000).abs().max() < 5 * 31.3


@pytest.mark.parametrize("name", ["aps_crop", "lps_crop", "tips_fill"])
def test_zeros_enter_the_normalised_image_as_in_the_papers_code(name):
    images = torch.randn(2, 3, 8, 8)
    padded = F.pad(images, (3, 3, 3, 3))
    shifts = torch.tensor([[2, -3], [-1, 0]])
    view = PRESETS[name].view(images, shifts)
    for n, (down, right) in enumerate(shifts.tolist()):
        expected = padded[n, :, 3 - down : 11 - down, 3 - right : 11 - right]
        assert torch.equal(view[n], expected)


def test_zhangs_crops_are_224_of_256():
    images = torch.arange(2.0 * 256 * 256).reshape(2, 1, 256, 256)
    shifts = torch.tensor([[0, 31], [31, 7]])
    view = PRESETS["zhang_imagenet"].view(images, shifts)
    assert np.array_equal(view[0], images[0, :, 0:224, 31:255])
    assert np.array_equal(view[1], images[1, :, 31:255, 7:231])


def test_crops_a_pixel_apart_hold_what_the_image_shows_and_nothing_else():
    images, shifts = torch.rand(4, 3, 16, 32), torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
    view = PRESETS["one_px"].view(images, shifts)
    for n, (down, right) in enumerate(shifts.tolist()):
        assert torch.equal(view[n], images[n, :, down : down + 14, right : right + 28])
    # An eighth of a smaller image is less than the pixel that a crop needs beside it.
    assert "at least 16x16" in PRESETS["one_px"].refusal((15, 40))


def test_flc_crops_32_of_the_image_enlarged_to_36():
    images, shifts = torch.rand(2, 3, 32, 32), torch.tensor([[0, 3], [2, 1]])
    large = F.interpolate(images, (36, 36), mode="bilinear", align_corners=False)
    view = PRESETS["flc_cifar"].view(images, shifts)
    assert torch.equal(view[0], large[0, :, 0:32, 3:35])
    assert torch.equal(view[1], large[1, :, 2:34, 1:33])


def test_images_too_small_for_a_preset_are_refused_with_the_reason():
    assert PRESETS["zhang_imagenet"].refusal((256, 256)) is None
    assert PRESETS["zhang_imagenet"].refusal((32, 32)) == "needs images of at least 256x256, got 32x32"
    assert PRESETS["flc_cifar"].refusal((8, 8)) == "leaves a 8x8 image a single position"
    assert PRESETS["distinct"].refusal((4, 4)) is None
