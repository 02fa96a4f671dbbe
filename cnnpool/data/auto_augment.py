"""RandAugment (Cubuk 2020, arXiv:1909.13719), TrivialAugment (Müller 2021, arXiv:2103.10158), colour jitter.

For whole batches of uint8 images. Operations, strengths and rounding are torchvision's defaults: two of
fourteen operations at strength 9 of 30, or one at a random strength from wider ranges. Colours are clipped to
0..255 and rounded down after each change.
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from cnnpool.data.draws import Draws

GREY = (0.2989, 0.587, 0.114)  # Weights of red, green and blue
Policy = Literal["randaugment", "trivialaugment"]
BINS = 30
STRENGTH = 9  # Strength of RandAugment, in ``BINS``
OPERATIONS = {"randaugment": 2, "trivialaugment": 1}
Operation = Callable[[Tensor, Tensor, Tensor, bool], Tensor]  # (images, strength 0 to 1, sign, wide ranges)


def auto_augment(x: Tensor, draws: Draws, policy: Policy) -> Tensor:
    """``x``, (N, C, H, W) of uint8, after random operations, drawn for each image from ``draws``."""
    wide = policy == "trivialaugment"
    for _ in range(OPERATIONS[policy]):
        chosen = draws.randint(0, len(TABLE))
        strength = torch.full((len(x),), STRENGTH)
        if wide:
            strength = draws.randint(0, BINS + 1)
        sign = 1 - 2 * draws.randint(0, 2)
        out = x.clone(memory_format=torch.channels_last)
        for number, operation in enumerate(TABLE.values()):
            own = (chosen == number).nonzero()[:, 0]
            if len(own):
                place = own.to(x.device)
                out[place] = operation(x[place], strength[own] / BINS, sign[own], wide)
        x = out
    return x


def _factor(change: Callable[[Tensor, Tensor], Tensor]) -> Operation:
    """Apply ``change`` with a factor up to 0.9 (wide: 0.99) below or above 1."""
    return lambda x, strength, sign, wide: change(x, 1 + sign * strength * (0.99 if wide else 0.9))


def _shear(axis: int) -> Operation:
    """Shear: move lines by up to 0.3 (wide: 0.99) of their distance from the upper or left border."""

    def shear(x: Tensor, strength: Tensor, sign: Tensor, wide: bool) -> Tensor:
        amount = sign * strength * (0.99 if wide else 0.3)
        theta = _identity(x)
        theta[:, axis, 1 - axis] = amount
        theta[:, axis, 2] = amount * (x.shape[2 + axis] / 2)
        return _warp(x, theta)

    return shear


def _translate(axis: int) -> Operation:
    """Shift by whole pixels, up to 150/331 of the size (wide: 32), filled with black."""

    def translate(x: Tensor, strength: Tensor, sign: Tensor, wide: bool) -> Tensor:
        most = 32.0 if wide else 150 / 331 * x.shape[3 - axis]
        theta = _identity(x)
        theta[:, axis, 2] = -(sign * strength * most).trunc()
        return _warp(x, theta)

    return translate


def rotate(x: Tensor, strength: Tensor, sign: Tensor, wide: bool) -> Tensor:
    """Rotate about the centre by up to 30 (wide: 135) degrees."""
    angle = sign * strength * math.radians(135 if wide else 30)
    theta = _identity(x)
    theta[:, 0, 0], theta[:, 0, 1] = angle.cos(), -angle.sin()
    theta[:, 1, 0], theta[:, 1, 1] = angle.sin(), angle.cos()
    return _warp(x, theta)


def posterize(x: Tensor, strength: Tensor, sign: Tensor, wide: bool) -> Tensor:
    """Set up to 4 (wide: 6) of the 8 bits to 0."""
    dropped = (strength * (6 if wide else 4)).round().long()
    masks = (255 << dropped).bitwise_and(255).to(torch.uint8).to(x.device)
    return x & masks.view(-1, 1, 1, 1)


def solarize(x: Tensor, strength: Tensor, sign: Tensor, wide: bool) -> Tensor:
    """Invert values from a threshold on: none at strength 0, all at 1."""
    threshold = (255 * (1 - strength)).to(x.device).view(-1, 1, 1, 1)
    return torch.where(x >= threshold, 255 - x, x)


def autocontrast(x: Tensor, strength: Tensor, sign: Tensor, wide: bool) -> Tensor:
    """Stretch each channel to 0..255."""
    low, high = (pick(x.float(), (2, 3), keepdim=True) for pick in (torch.amin, torch.amax))
    scale = torch.where(high > low, (high - low) / 255, 1.0)
    low = torch.where(high > low, low, 0.0)
    return ((x.float() - low) / scale).clamp_(0, 255).to(torch.uint8)


def equalize(x: Tensor, strength: Tensor, sign: Tensor, wide: bool) -> Tensor:
    """Replace each channel's values by their rank, as Pillow does."""
    from torchvision.transforms.v2.functional import equalize_image

    equal: Tensor = equalize_image(x)
    return equal


def _identity(x: Tensor) -> Tensor:
    return torch.eye(2, 3).repeat(len(x), 1, 1)


def _warp(x: Tensor, theta: Tensor) -> Tensor:
    """The nearest pixel of ``x`` by ``theta``, (N, 2, 3), from result to image in pixels from the centre."""
    height, width = x.shape[2:]
    theta[:, 0, 1] *= height / width
    theta[:, 1, 0] *= width / height
    theta[:, 0, 2] *= 2 / width
    theta[:, 1, 2] *= 2 / height
    grid = F.affine_grid(theta.to(x.device), list(x.shape), align_corners=False)
    return F.grid_sample(x.float(), grid, mode="nearest", align_corners=False).to(torch.uint8)


def brightness(x: Tensor, factor: Tensor) -> Tensor:
    """Each image of ``x``, (N, C, H, W) of uint8, times its ``factor``, (N,): 0 gives black."""
    return _whole(x.float() * _column(factor, x))


def contrast(x: Tensor, factor: Tensor) -> Tensor:
    """Each image blended with its mean grey: 0 gives a plain image, 1 the image, 2 twice the contrast."""
    return _blend(x, grey(x).mean((1, 2, 3), keepdim=True), factor)


def saturation(x: Tensor, factor: Tensor) -> Tensor:
    """Each image blended with its grey version; images of one channel stay as they are."""
    return x if x.shape[1] == 1 else _blend(x, grey(x), factor)


def sharpness(x: Tensor, factor: Tensor) -> Tensor:
    """Each image blended with its blurred version (3x3, the centre five times), the border left alone."""
    if min(x.shape[2:]) < 3:
        return x
    kernel = torch.ones(3, 3, device=x.device)
    kernel[1, 1] = 5
    channels = x.shape[1]
    blurred = x.float()
    inner = F.conv2d(blurred, (kernel / kernel.sum()).expand(channels, 1, 3, 3), groups=channels)
    blurred[:, :, 1:-1, 1:-1] = inner.round_()
    return _blend(x, blurred, factor)


def color_jitter(x: Tensor, draws: Draws, strength: float) -> Tensor:
    """Brightness, contrast, saturation, in this order, times factors of 1 -+ ``strength``."""
    factors = 1 + strength * (2 * draws.rand(3).float().T - 1)
    for change, factor in zip((brightness, contrast, saturation), factors.to(x.device), strict=True):
        x = change(x, factor)
    return x


def grey(x: Tensor) -> Tensor:
    """The grey version of each image, (N, 1, H, W), float32, rounded down."""
    if x.shape[1] == 1:
        return x.float()
    weights = torch.tensor(GREY, device=x.device).view(1, 3, 1, 1)
    return (x.float() * weights).sum(1, keepdim=True).floor_()


def _blend(x: Tensor, other: Tensor, factor: Tensor) -> Tensor:
    # Keep equal values: a weighted sum would round them down.
    return _whole(other + (x.float() - other) * _column(factor, x))


def _column(factor: Tensor, x: Tensor) -> Tensor:
    return factor.to(x.device, torch.float32).view(-1, 1, 1, 1)


def _whole(x: Tensor) -> Tensor:
    return x.clamp_(0, 255).to(torch.uint8)


TABLE: dict[str, Operation] = {
    "identity": lambda x, strength, sign, wide: x,
    "shear_x": _shear(0),
    "shear_y": _shear(1),
    "translate_x": _translate(0),
    "translate_y": _translate(1),
    "rotate": rotate,
    "brightness": _factor(brightness),
    "saturation": _factor(saturation),
    "contrast": _factor(contrast),
    "sharpness": _factor(sharpness),
    "posterize": posterize,
    "solarize": solarize,
    "autocontrast": autocontrast,
    "equalize": equalize,
}
