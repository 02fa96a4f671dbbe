"""Random parts of images, brought to one size (Szegedy 2015, arXiv:1409.4842)."""

import torch
from torch import Tensor
from torch.nn import functional as F

from cnnpool.data.draw import Draws

RATIO = 4 / 3
"""Width over height of a part, or its inverse, is at most this."""
TRIES = 10


def random_resized_crop(
    x: Tensor, draws: Draws, scale: tuple[float, float], size: tuple[int, int] | None = None
) -> Tensor:
    """A random part of each image, resized (bilinear, antialiased).

    Args:
        x: images, (N, C, H, W), uint8.
        draws: of these images; the only source of chance.
        scale: the part's smallest and largest share of the area, in (0, 1].
        size: (H, W) of the result; None for that of ``x``.

    Returns:
        A fresh tensor, (N, C, H, W), in channels_last memory format.
    """
    whole = (x.shape[2], x.shape[3])
    size = size or whole
    out = torch.empty((*x.shape[:2], *size), dtype=x.dtype, device=x.device)
    out = out.contiguous(memory_format=torch.channels_last)
    for i, (top, left, height, width) in enumerate(boxes(len(x), whole, draws, scale).tolist()):
        part = x[i : i + 1, :, top : top + height, left : left + width]
        if x.device.type == "cpu":
            out[i] = F.interpolate(part, size, mode="bilinear", antialias=True)[0]
        else:
            # There is no antialiased resizing of whole numbers elsewhere.
            resized = F.interpolate(part.float(), size, mode="bilinear", antialias=True)
            out[i] = resized.round_().clamp_(0, 255)[0]
    return out


def boxes(count: int, size: tuple[int, int], draws: Draws, scale: tuple[float, float]) -> Tensor:
    """(top, left, height, width) of a random part of each image, (count, 4), as torchvision draws them.

    Area uniform, logarithm of the shape uniform; after ten parts that do not fit, the central one of the
    nearest shape.
    """
    height, width = size
    shares, shapes, places = draws.rand(3, TRIES).unbind(1)
    area = height * width * (scale[0] + (scale[1] - scale[0]) * shares)
    ratio = RATIO ** (2 * shapes - 1)
    sizes = torch.stack(((area / ratio).sqrt(), (area * ratio).sqrt()), -1).round().long()
    fits = ((sizes >= 1) & (sizes <= torch.tensor([height, width]))).all(-1)
    first = fits.int().argmax(1)
    rows = torch.arange(count)
    whole = torch.tensor(
        [min(height, round(width * RATIO)), min(width, round(height * RATIO))], dtype=torch.int64
    )
    found = fits.any(1)
    chosen = torch.where(found[:, None], sizes[rows, first], whole)
    room = torch.tensor([height, width]) - chosen + 1
    corner = torch.where(found[:, None], (places[:, :2] * room).floor().long(), (room - 1) // 2)
    return torch.cat((corner, chosen), 1)
