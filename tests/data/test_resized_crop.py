import pytest
import torch
from loaders import draws
from torchvision.transforms.v2 import functional as TF

from cnnpool.data.draw import generator
from cnnpool.data.resized_crop import boxes, random_resized_crop


def images(n: int = 5, channels: int = 3, size=(20, 26)) -> torch.Tensor:
    return torch.randint(0, 256, (n, channels, *size), dtype=torch.uint8, generator=generator(0))


@pytest.mark.parametrize("channels", [1, 3])
def test_parts_are_resized_as_by_torchvision(channels):
    x = images(channels=channels)
    found = random_resized_crop(x, draws(len(x), 7), (0.08, 1.0))
    assert found.dtype == torch.uint8 and found.is_contiguous(memory_format=torch.channels_last)
    for image, own, box in zip(x, found, boxes(5, (20, 26), draws(5, 7), (0.08, 1.0)), strict=True):
        expected = TF.resized_crop(image, *box.tolist(), size=[20, 26], antialias=True)
        assert (own.int() - expected.int()).abs().max() <= 1


def test_parts_lie_within_the_image_and_have_the_areas_asked_for():
    found = boxes(4000, (96, 120), draws(4000, 1), (0.2, 0.6)).double()
    top, left, height, width = found.unbind(1)
    assert (top >= 0).all() and (left >= 0).all()
    assert (top + height <= 96).all() and (left + width <= 120).all()
    share, shape = height * width / (96 * 120), width / height
    assert share.min() > 0.18 and share.max() < 0.62
    assert abs(share.mean() - 0.4) < 0.01
    assert shape.min() > 0.72 and shape.max() < 1.39
    assert abs(shape.log().mean()) < 0.02
    # Every corner is reached.
    assert top.min() == left.min() == 0 and (top + height).max() == 96 and (left + width).max() == 120


def test_the_whole_image_is_a_part_too():
    assert boxes(3, (8, 8), draws(3, 0), (1.0, 1.0))[:, 2:].max() <= 8
    found = boxes(2, (100, 10), draws(2, 0), (1.0, 1.0))
    # No part of these shapes has so large an area: the central one of the nearest shape.
    assert found.tolist() == [[43, 0, 13, 10]] * 2


def test_single_pixels_have_parts():
    x = images(size=(1, 1))
    assert torch.equal(random_resized_crop(x, draws(len(x), 0), (0.1, 1.0)), x)
