import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loaders import draws
from torchvision.transforms.v2 import functional as TF

from cnnpool.data.augment import augment, boxes, mirror, resized_crop, translate


def images(n: int, channels: int, height: int, width: int, seed: int = 0) -> torch.Tensor:
    shape = (n, channels, height, width)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def moved_one_by_one(x: torch.Tensor, offset: torch.Tensor, margin: int, mode: str) -> np.ndarray:
    """The slow obvious version: numpy's own padding, then one crop per image."""
    out = []
    for image, (dy, dx) in zip(x.numpy(), offset.tolist(), strict=True):
        padded = np.pad(image, ((0, 0), (margin, margin), (margin, margin)), mode=mode)
        top, left = margin - dy, margin - dx
        out.append(padded[:, top : top + x.shape[2], left : left + x.shape[3]])
    return np.stack(out)


@settings(max_examples=60)
@given(
    n=st.integers(1, 5),
    channels=st.integers(1, 4),
    height=st.integers(4, 9),
    width=st.integers(4, 9),
    margin=st.integers(0, 3),
    fill=st.sampled_from(["zero", "reflect"]),
    channels_last=st.booleans(),
    data=st.data(),
)
def test_translation_equals_padding_and_cropping_each_image(
    n, channels, height, width, margin, fill, channels_last, data
):
    x = images(n, channels, height, width, seed=data.draw(st.integers(0, 99)))
    if channels_last:
        x = x.contiguous(memory_format=torch.channels_last)
    before = x.clone()
    moves = st.integers(-margin, margin)
    offset = torch.tensor([[data.draw(moves), data.draw(moves)] for _ in range(n)])
    y = translate(x, offset, margin=margin, fill=fill)
    mode = {"zero": "constant", "reflect": "reflect"}[fill]
    np.testing.assert_array_equal(y.numpy(), moved_one_by_one(x, offset, margin, mode))
    assert y.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(x, before)


@pytest.mark.parametrize("chosen", [[True, False, True], [False] * 3, [True] * 3])
def test_mirroring_turns_the_chosen_images_only(chosen):
    x = images(3, 2, 4, 5)
    expected = np.stack([i[:, :, ::-1] if c else i for i, c in zip(x.numpy(), chosen, strict=True)])
    y = mirror(x, torch.tensor(chosen))
    np.testing.assert_array_equal(y.numpy(), expected)
    y.zero_()
    assert x.any()


def test_shifts_are_uniform_over_all_offsets():
    x = torch.zeros(9000, 1, 7, 7, dtype=torch.uint8)
    x[:, :, 3, 3] = 1
    y = augment(x, draws(len(x), 0), shift=1)
    counts = y.sum(0, dtype=torch.int64)[0]
    assert counts.sum() == 9000
    # Nine cells of 1,000 expected, standard deviation 30: five of them either way.
    inner = counts[2:5, 2:5]
    assert inner.sum() == 9000
    assert inner.min() > 850 and inner.max() < 1150


def test_half_of_the_images_are_mirrored():
    x = torch.zeros(10000, 1, 1, 2, dtype=torch.uint8)
    x[..., 0] = 1
    mirrored = augment(x, draws(len(x), 0), flip=True)[..., 1].sum(dtype=torch.int64)
    assert abs(int(mirrored) - 5000) < 250


@pytest.mark.parametrize("channels", [1, 3])
def test_parts_are_resized_as_by_torchvision(channels):
    x = images(5, channels, 20, 26)
    found = resized_crop(x, draws(len(x), 7), (0.08, 1.0), (20, 26))
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
