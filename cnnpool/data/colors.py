"""Colour changes of whole batches of uint8 images, with a separate factor for each image.

Values are clipped to 0..255 and rounded down after each change, as in torchvision.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from cnnpool.data.draws import Draws

GREY = (0.2989, 0.587, 0.114)
"""Weights of red, green and blue."""


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
    """Brightness, contrast and saturation of each image times factors from 1 - strength to 1 + strength.

    Applied in this order; torchvision also draws the order.
    """
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
