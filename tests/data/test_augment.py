import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loaders import draws
from torch.nn import functional as F
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as TF

from cnnpool.data.augment import augment, boxes, mirror, mix, resized_crop, translate
from cnnpool.data.auto_augment import BINS, TABLE, auto_augment, color_jitter
from cnnpool.data.draws import generator


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
    mirrored = augment(x.index_fill(3, torch.tensor([0]), 1), draws(len(x), 0), flip=True)
    # Half of the images, 4,500, with a standard deviation of 47.
    assert abs(int(mirrored[:, 0, 0, 6].sum(dtype=torch.int64)) - 4500) < 240


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


LABELS = torch.arange(12) % 4


def plain(n: int = 12, size=(10, 8)) -> torch.Tensor:
    """Image i is everywhere i."""
    return torch.arange(n, dtype=torch.float32).view(n, 1, 1, 1).expand(n, 2, *size).clone()


def numbers(mixed: torch.Tensor) -> list[set[float]]:
    return [set(image.flatten().tolist()) for image in mixed]


@pytest.mark.parametrize("seed", range(5))
def test_mixup_blends_images_and_labels_by_one_share(seed):
    mixed, shares = mix(plain(), LABELS, generator(seed), num_classes=4, mixup=0.8)
    assert all(len(values) == 1 for values in numbers(mixed))
    order = torch.randperm(12, generator=generator(seed))
    moved = order != torch.arange(12)
    share = ((mixed[:, 0, 0, 0] - order) / (torch.arange(12) - order))[moved]
    torch.testing.assert_close(share, share[:1].expand_as(share), atol=1e-5, rtol=1e-5)
    expected = share[0] * F.one_hot(LABELS, 4) + (1 - share[0]) * F.one_hot(LABELS[order], 4)
    torch.testing.assert_close(shares, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_cutmix_pastes_a_rectangle_whose_area_is_the_share(seed):
    mixed, shares = mix(plain(), LABELS, generator(seed), num_classes=4, cutmix=1.0)
    order = torch.randperm(12, generator=generator(seed))
    for i, image in enumerate(mixed):
        assert set(image.flatten().tolist()) <= {float(i), float(order[i])}
        if order[i] == i:
            continue
        pasted = image[0] == order[i]
        rows, columns = pasted.any(1), pasted.any(0)
        assert torch.equal(pasted, rows[:, None] & columns[None])
        kept = 1 - pasted.float().mean()
        expected = kept * F.one_hot(LABELS[i], 4) + (1 - kept) * F.one_hot(LABELS[order[i]], 4)
        torch.testing.assert_close(shares[i], expected)


def test_cutmix_pastes_half_where_the_beta_distribution_is_narrow():
    pasted = []
    for seed in range(20):
        mixed, _ = mix(plain(2, (40, 40)), LABELS[:2], generator(seed), num_classes=4, cutmix=1e6)
        share = (mixed[0] != 0).double().mean().item()
        pasted.append(share)
    # The border cuts off a part of most rectangles.
    assert 0.35 < max(pasted) <= 0.5


def test_shares_are_drawn_from_the_beta_distribution():
    found = []
    for seed in range(400):
        order = torch.randperm(2, generator=generator(seed))
        mixed, _ = mix(plain(2), LABELS[:2], generator(seed), num_classes=4, mixup=2.0)
        if order[0] == 1:
            found.append(1 - mixed[0, 0, 0, 0])
    found = torch.stack(found)
    # Mean 1/2 and variance 1 / (4 (2 alpha + 1)) = 1/20.
    assert abs(found.mean() - 0.5) < 4 * (0.05 / len(found)) ** 0.5
    assert 0.035 < found.var() < 0.065


def test_of_two_ways_each_batch_takes_one():
    ways = [
        max(map(len, numbers(mix(plain(), LABELS, generator(seed), num_classes=4, mixup=1, cutmix=1)[0])))
        for seed in range(60)
    ]
    assert set(ways) == {1, 2} and 10 < ways.count(2) < 50


def patches(n: int = 4, channels: int = 3, size=(24, 20)) -> torch.Tensor:
    """Coarse patches, in which the nearest pixel is rarely in doubt."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.randint(30, 226, (n, channels, size[0] // 4, size[1] // 4), generator=generator)
    return coarse.repeat_interleave(4, 2).repeat_interleave(4, 3).to(torch.uint8)


def theirs(name: str, x: torch.Tensor, bin_: int, sign: int, wide: bool) -> torch.Tensor:
    """Torchvision's functional operation with the magnitudes of its documentation."""
    share = bin_ / BINS
    most = {"rotate": (30, 135), "shear_x": (0.3, 0.99), "shear_y": (0.3, 0.99)}
    span = [150 / 331 * x.shape[3], 150 / 331 * x.shape[2]]
    most |= {"translate_x": (span[0], 32), "translate_y": (span[1], 32)}
    amount = sign * share * most.get(name, (0.9, 0.99))[wide]
    options = {"angle": 0.0, "translate": [0, 0], "scale": 1.0, "shear": [0.0, 0.0]}
    match name:
        case "shear_x":
            options |= {"shear": [math.degrees(math.atan(amount)), 0.0], "center": [0, 0]}
        case "shear_y":
            options |= {"shear": [0.0, math.degrees(math.atan(amount))], "center": [0, 0]}
        case "translate_x":
            options["translate"] = [int(amount), 0]
        case "translate_y":
            options["translate"] = [0, int(amount)]
        case "rotate":
            return TF.rotate(x, amount, interpolation=InterpolationMode.NEAREST)
        case "posterize":
            return TF.posterize(x, 8 - round(share * (6 if wide else 4)))
        case "solarize":
            return TF.solarize(x, 255 * (1 - share))
        case "autocontrast" | "equalize":
            return getattr(TF, name)(x)
        case "identity":
            return x
        case _:
            return getattr(TF, f"adjust_{name}")(x, 1 + amount)
    return TF.affine(x, interpolation=InterpolationMode.NEAREST, **options)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", TABLE)
def test_an_operation_is_that_of_torchvision(name, wide):
    x = patches()
    for bin_, sign in ((0, 1), (9, 1), (9, -1), (17, -1), (30, 1)):
        amount = torch.full((4,), bin_ / BINS)
        found = TABLE[name](x, amount, torch.full((4,), sign), wide)
        assert found.shape == x.shape and found.dtype == torch.uint8
        expected = theirs(name, x, bin_, sign, wide)
        close = (found.int() - expected.int()).abs() <= 1
        # Of two pixels equally near, either may be taken.
        assert close.float().mean() > 0.97, (bin_, sign)


def test_images_narrower_than_its_window_have_no_sharpness():
    x = patches(size=(4, 20))[:, :, :2]
    found = TABLE["sharpness"](x, torch.ones(4), torch.ones(4), False)
    assert torch.equal(found, TF.adjust_sharpness(x, 1.9))


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("policy", ["randaugment", "trivialaugment"])
def test_every_image_draws_for_itself(policy, channels):
    x = patches(1, channels).expand(300, -1, -1, -1)
    found = auto_augment(x, draws(len(x), 3), policy)
    assert found.shape == x.shape and found.is_contiguous(memory_format=torch.channels_last)
    assert len({image.numpy().tobytes() for image in found}) > (25 if policy == "randaugment" else 80)
    assert torch.equal(found, auto_augment(x, draws(len(x), 3), policy))
    assert not torch.equal(found, auto_augment(x, draws(len(x), 4), policy))


@pytest.mark.parametrize("image", [torch.zeros(1, 3, 5, 5), torch.full((1, 1, 5, 5), 255)])
def test_plain_images_stay_plain(image):
    x = image.to(torch.uint8)
    one = torch.ones(1)
    for name in ("autocontrast", "contrast", "equalize"):
        assert torch.equal(TABLE[name](x, one, -one, False), x)


def test_jitter_draws_a_factor_for_each_image_within_the_strength():
    grey = torch.full((400, 3, 4, 4), 100, dtype=torch.uint8)
    found = color_jitter(grey, draws(len(grey), 1), 0.4)
    # Contrast and saturation change nothing in plain grey; each step rounds down.
    values = found[:, 0, 0, 0].int()
    assert values.min() in range(57, 64) and values.max() in range(136, 141)
    assert len(set(values.tolist())) > 50
    assert torch.equal(found, color_jitter(grey, draws(len(grey), 1), 0.4))
    coloured = images(6, 3, 11, 9)
    same = color_jitter(coloured, draws(6), 0.0)
    assert (same.int() - coloured.int()).abs().max() <= 1
