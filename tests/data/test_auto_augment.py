import math

import pytest
import torch
from loaders import draws
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as TF

from cnnpool.data import auto_augment as room
from cnnpool.data.auto_augment import BINS, TABLE, auto_augment, color_jitter


def images(n: int = 4, channels: int = 3, size=(24, 20)) -> torch.Tensor:
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
    x = images()
    for bin_, sign in ((0, 1), (9, 1), (9, -1), (17, -1), (30, 1)):
        amount = torch.full((4,), bin_ / BINS)
        found = TABLE[name](x, amount, torch.full((4,), sign), wide)
        assert found.shape == x.shape and found.dtype == torch.uint8
        expected = theirs(name, x, bin_, sign, wide)
        close = (found.int() - expected.int()).abs() <= 1
        # Of two pixels equally near, either may be taken.
        assert close.float().mean() > 0.97, (bin_, sign)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("policy", ["randaugment", "trivialaugment"])
def test_every_image_draws_for_itself(policy, channels):
    x = images(1, channels).expand(300, -1, -1, -1)
    found = auto_augment(x, draws(len(x), 3), policy)
    assert found.shape == x.shape and found.is_contiguous(memory_format=torch.channels_last)
    assert len({image.numpy().tobytes() for image in found}) > (25 if policy == "randaugment" else 80)
    assert torch.equal(found, auto_augment(x, draws(len(x), 3), policy))
    assert not torch.equal(found, auto_augment(x, draws(len(x), 4), policy))


@pytest.mark.parametrize("image", [torch.zeros(1, 3, 5, 5), torch.full((1, 1, 5, 5), 255)])
def test_plain_images_stay_plain(image):
    x = image.to(torch.uint8)
    none = torch.zeros(1)
    for name in ("autocontrast", "equalize"):
        assert torch.equal(TABLE[name](x, none, none, False), x)


def noise(n: int = 6, channels: int = 3, size=(11, 9)) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (n, channels, *size), dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation", "sharpness"])
def test_a_change_is_that_of_torchvision(name, channels):
    x, factors = noise(channels=channels), torch.tensor([0.0, 0.3, 0.9, 1.0, 1.37, 1.99])
    found = getattr(room, name)(x, factors)
    expected = torch.stack(
        [getattr(TF, f"adjust_{name}")(image, float(f)) for image, f in zip(x, factors, strict=True)]
    )
    assert found.dtype == torch.uint8
    # A sum in another order may fall on the other side of a whole number.
    difference = (found.int() - expected.int()).abs()
    assert difference.max() <= 1 and (difference > 0).float().mean() < 0.03


def test_jitter_draws_a_factor_for_each_image_within_the_strength():
    grey = torch.full((400, 3, 4, 4), 100, dtype=torch.uint8)
    found = color_jitter(grey, draws(len(grey), 1), 0.4)
    # Contrast and saturation change nothing in plain grey; each step rounds down.
    values = found[:, 0, 0, 0].int()
    assert values.min() in range(57, 64) and values.max() in range(136, 141)
    assert len(set(values.tolist())) > 50
    assert torch.equal(found, color_jitter(grey, draws(len(grey), 1), 0.4))
    same = color_jitter(noise(), draws(len(noise())), 0.0)
    assert (same.int() - noise().int()).abs().max() <= 1
