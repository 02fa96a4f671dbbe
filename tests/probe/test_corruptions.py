import io
import math
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy import ndimage
from torch import nn

from cnnpool.probe import Corruptions
from cnnpool.probe import corruptions as ways
from cnnpool.probe.corruptions import CORRUPTIONS, CorruptionName


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def x():
    return torch.rand(3, 3, 20, 17, generator=seeded())


def test_every_name_has_a_corruption_of_five_severities():
    assert get_args(CorruptionName) == tuple(CORRUPTIONS)
    assert {len(one.strengths) for one in CORRUPTIONS.values()} == {5}


@settings(max_examples=20)
@given(st.sampled_from([1, 2, 3]), st.tuples(st.integers(1, 40), st.integers(1, 40)), st.integers(0, 4))
def test_images_keep_their_shape_and_range_and_repeat_with_the_generator(channels, size, severity):
    x = torch.rand(2, channels, *size, generator=seeded())
    before = x.clone()
    for name, (apply, strengths) in CORRUPTIONS.items():
        y = apply(x, strengths[severity], seeded(1))
        assert y.shape == x.shape and y.dtype == torch.float32, name
        assert y.min() >= 0 and y.max() <= 1, name
        assert torch.equal(y, apply(x, strengths[severity], seeded(1))), name
    assert torch.equal(x, before)


def test_a_stronger_corruption_moves_an_image_further():
    x = torch.rand(4, 3, 32, 32, generator=seeded())
    for name, (apply, strengths) in CORRUPTIONS.items():
        moved = [(apply(x, strength, seeded()) - x).square().mean().item() for strength in strengths]
        assert moved == sorted(moved) and moved[0] < moved[-1], name


def test_noise_has_the_moments_of_its_distribution():
    grey, n = torch.full((8, 1, 100, 100), 0.5), 80_000
    added = ways.gaussian_noise(grey, 0.1, seeded()) - 0.5
    assert added.mean().item() == pytest.approx(0, abs=5 * 0.1 / math.sqrt(n))
    assert added.std().item() == pytest.approx(0.1, rel=0.02)
    # A Poisson count of mean and variance 50, divided by 100.
    shot = ways.shot_noise(grey, 100, seeded())
    assert shot.mean().item() == pytest.approx(0.5, abs=5 * math.sqrt(50) / 100 / math.sqrt(n))
    assert shot.std().item() == pytest.approx(math.sqrt(50) / 100, rel=0.02)
    assert torch.allclose((shot * 100).round(), shot * 100, atol=1e-3)
    struck = ways.impulse_noise(grey, 0.07, seeded())
    for end in (0, 1):
        assert (struck == end).double().mean().item() == pytest.approx(0.035, abs=5 * math.sqrt(0.035 / n))
    assert set(struck.unique().tolist()) == {0.0, 0.5, 1.0}


def test_gaussian_blur_is_that_of_scipy(x):
    for sigma in CORRUPTIONS["gaussian_blur"].strengths:
        expected = ndimage.gaussian_filter(x.numpy(), (0, 0, sigma, sigma), mode="nearest", truncate=4.0)
        assert np.allclose(ways.gaussian_blur(x, sigma, seeded()), expected, atol=1e-6)


def test_defocus_blur_is_a_correlation_with_a_softened_disk(x):
    radius, sigma = 1.5, 0.1
    place = np.arange(-8, 9)
    disk = (place[:, None] ** 2 + place**2 <= radius**2).astype(np.float64)
    # Nine points of the grid lie within 1.5 of the centre; a Gaussian of sigma 0.1 leaves them as they are.
    assert disk.sum() == 9
    expected = ndimage.correlate(x.numpy().astype(np.float64), disk[None, None] / 9, mode="mirror")
    assert np.allclose(ways.defocus_blur(x, (radius, sigma), seeded()), expected, atol=1e-5)


def test_motion_blur_is_a_slow_sum_over_shifts(x):
    y = ways.motion_blur(x, (6, 2.0), seeded(3)).numpy()
    weights = np.exp(-(np.arange(13) ** 2) / 8)
    weights /= weights.sum()
    for image, chance in enumerate(torch.rand(3, generator=seeded(3)).tolist()):
        angle = math.radians((2 * chance - 1) * 45)
        for row, column in ((0, 0), (10, 3), (19, 16)):
            expected = 0.0
            for k, weight in enumerate(weights):
                r = min(max(row - round(k * math.sin(angle)), 0), 19)
                expected += weight * x[image, 1, r, max(column - round(k * math.cos(angle)), 0)].item()
            assert y[image, 1, row, column] == pytest.approx(expected, abs=1e-5)


def test_zoom_blur_averages_the_image_and_its_zooms():
    # A ramp about the centre becomes a ramp of slope 1 / zoom.
    ramp = torch.linspace(-1, 1, 32)[None, None, None].expand(1, 1, 32, 32) * 0.4 + 0.5
    y = ways.zoom_blur(ramp, 1.11, seeded())
    zooms = [1, *(1 + k / 100 for k in range(11))]
    slope = np.mean([1 / zoom for zoom in zooms])
    assert np.allclose(y - 0.5, (ramp - 0.5) * slope, atol=1e-5)


def test_fog_is_brighter_where_its_cloud_is_and_keeps_the_brightest_value():
    x = torch.full((2, 3, 32, 32), 0.25)
    x[:, :, 0, 0] = 1
    y = ways.fog(x, (1.5, 1.75), seeded())
    # (x + 1.5 p) / 2.5, with p within 0..1 and taking both ends.
    cloud = (2.5 * y - x) / 1.5
    assert [cloud.min().item(), cloud.max().item()] == pytest.approx([0, 1], abs=1e-5)
    assert not torch.equal(cloud[0], cloud[1])
    assert torch.allclose(cloud[:, 0], cloud[:, 2], atol=1e-6)
    # Neighbours of a cloud are alike, those of noise are not.
    assert (cloud[..., 1:] - cloud[..., :-1]).abs().mean() < 0.5 * (cloud - cloud.mean()).abs().mean()


def test_brightness_raises_the_value_and_keeps_hue_and_saturation():
    x = torch.tensor([[0.5, 0.9, 0.0], [0.25, 0.9, 0.0], [0.0, 0.45, 0.0]])[None, ..., None]
    expected = torch.tensor([[0.7, 1.0, 0.2], [0.35, 1.0, 0.2], [0.0, 0.5, 0.2]])[None, ..., None]
    assert torch.allclose(ways.brightness(x, 0.2, seeded()), expected)
    grey = torch.rand(1, 1, 5, 5)
    assert torch.allclose(ways.brightness(grey, 0.3, seeded()), (grey + 0.3).clamp(max=1))


def test_contrast_keeps_the_mean_of_every_channel():
    x = torch.tensor([[0.2, 0.6], [0.1, 0.3]]).view(1, 2, 1, 2)
    expected = torch.tensor([[0.3, 0.5], [0.15, 0.25]]).view(1, 2, 1, 2)
    assert torch.allclose(ways.contrast(x, 0.5, seeded()), expected)


def test_pixelate_averages_boxes():
    x = torch.tensor([[0, 51, 102, 153]] * 4)[None, None] / 255
    y = ways.pixelate(x, 0.5, seeded())
    # Means 25.5 and 127.5, in 8 bits.
    assert (255 * y[0, 0, 0]).round().tolist() == [26, 26, 128, 128]


@pytest.mark.parametrize("channels", [1, 3])
def test_jpeg_is_what_a_file_of_that_quality_holds(channels):
    x = torch.rand(1, channels, 16, 16, generator=seeded())
    levels = (255 * x).round().to(torch.uint8)[0].permute(1, 2, 0).squeeze().numpy()
    file = io.BytesIO()
    Image.fromarray(levels).save(file, "JPEG", quality=50)
    read = np.asarray(Image.open(file)).reshape(16, 16, channels)
    assert np.array_equal((255 * ways.jpeg(x, 50, seeded()))[0].permute(1, 2, 0).round(), read)


class Bright(nn.Module):
    """Class 1 where the mean of the pixels is above one half."""

    def forward(self, x):
        mean = x.mean((1, 2, 3)) * 0.5 + 0.5
        return torch.stack([0.5 - mean, mean - 0.5], 1)


def test_the_probe_counts_right_and_unchanged_answers():
    # Normalised by mean 1/2 and deviation 1/2: black is -1, white 1.
    pixels = torch.tensor([0.1, 0.9, 0.44, 0.2])[:, None, None, None].expand(4, 1, 4, 4)
    labels = torch.tensor([0, 1, 1, 1])
    ends = torch.tensor([-1.0]), torch.tensor([1.0])
    probe = Corruptions(names=("brightness", "contrast"), severities=(1, 5))
    found = probe.measure(Bright(), {}, 2 * pixels - 1, labels, *ends)
    # brightness adds 0.05, which tips none, and 0.3, which tips 0.44 (then right) and leaves 0.2 below 1/2.
    assert found["clean_accuracy"] == 0.5
    assert found["by_corruption"] == {"brightness": (0.5 + 0.75) / 2, "contrast": 0.5}
    assert found["by_severity"] == {"1": 0.5, "5": (0.75 + 0.5) / 2}
    assert found["accuracy"] == (0.5 + 0.75 + 0.5 + 0.5) / 4
    assert found["consistency"] == (1 + 0.75 + 1 + 1) / 4
    assert found["black_and_white"] == "known"


def test_without_black_and_white_the_range_of_each_channel_stands_for_them():
    images = torch.rand(8, 3, 6, 6, generator=seeded())
    images[0, :, 0, 0], images[0, :, 0, 1] = 0, 1
    scale, offset = torch.tensor([2.0, 3.0, 4.0])[:, None, None], 7.0
    labels = torch.arange(8) % 2

    class Undone(Bright):
        def forward(self, x):
            return super().forward(2 * (x - offset) / scale - 1)

    ends = torch.full((3,), 7.0), torch.tensor([9.0, 10, 11])
    known = Corruptions().measure(Undone(), {}, images * scale + offset, labels, *ends)
    guessed = Corruptions().measure(Undone(), {}, images * scale + offset, labels)
    assert guessed.pop("black_and_white") != known.pop("black_and_white")
    assert guessed == known
