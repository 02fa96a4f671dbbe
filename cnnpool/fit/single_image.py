"""Single images as the test images of a training were prepared, and their predicted classes."""

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from cnnpool.data.augment import centre

Picture = str | Path | bytes | Image.Image | np.ndarray | Tensor
"""A file's path or content, a PIL image, an array (H, W) or (H, W, C), or a tensor (C, H, W).

Arrays and tensors hold whole numbers of 0 to 255 in uint8, or numbers of 0 to 1.
"""
Pictures = Picture | Sequence[Picture]
"""One, or several in a list, in an array (N, H, W, C) or in a tensor (N, C, H, W)."""


class Prediction(NamedTuple):
    """The most probable class of an image, and its probability, 0..1."""

    name: str
    probability: float


def are_several(images: Pictures) -> bool:
    """Whether ``images`` are a batch."""
    return isinstance(images, list | tuple) or (isinstance(images, np.ndarray | Tensor) and images.ndim == 4)


def single_image(image: Picture, data: Mapping[str, Any]) -> Tensor:
    """(C, H, W), resized as for the test, cut to its centre and normalised; else a ValueError."""
    # Imported late: a training reads its images elsewhere.
    from torchvision.transforms.v2 import functional as transforms

    want = list(data.get("whole", data["size"]))
    of_file = data["in_channels"] in (1, 3)
    if of_file and isinstance(image, np.ndarray) and image.dtype == np.uint8 and image.ndim in (2, 3):
        # As from its file.
        image = _pil(image)
    values = _values(image) if isinstance(image, np.ndarray | Tensor) else _decoded(image, want, data)
    channels, *have = values.shape
    if channels != data["in_channels"]:
        raise ValueError(f"the image has {channels} channels, and the network takes {data['in_channels']}")
    if have != want:
        # As from a file of each channel, in 8 bits.
        planes, grey = (255 * values).round().to(torch.uint8).numpy(), {**data, "in_channels": 1}
        values = torch.cat([_decoded(_pil(plane), want, grey) for plane in planes])
    values = centre(values[None], tuple(data["size"]))[0]
    normalised: Tensor = transforms.normalize(values, data["mean"], data["std"])
    return normalised


def _pil(pixels: np.ndarray) -> Image.Image:
    channels = pixels.shape[2] if pixels.ndim == 3 else 1
    if channels not in (1, 3, 4) or not pixels.size:
        raise ValueError(f"an image is an array (H, W) or (H, W, C), C 1, 3 or 4, got {pixels.shape}")
    return Image.fromarray(
        np.ascontiguousarray(pixels.reshape(pixels.shape[:2]) if channels == 1 else pixels)
    )


def _decoded(image: str | Path | bytes | Image.Image, want: list[int], data: Mapping[str, Any]) -> Tensor:
    from cnnpool.data.decode import MEGAPIXELS, decode, quiet_pillow, read_header, reason

    if not isinstance(image, str | Path | bytes | Image.Image):
        kinds = "a file, a PIL image, an array (H, W, C) or a tensor (C, H, W)"
        raise ValueError(f"an image is {kinds}, got {type(image).__name__}")
    picture, most = str(image) if isinstance(image, Path) else image, data.get("max_megapixels", MEGAPIXELS)
    try:
        with quiet_pillow():
            if not isinstance(picture, Image.Image) and prod(read_header(picture).size) > most * 10**6:
                raise ValueError(f"more than the training's data.max_megapixels={most}: shrink it")
            pixels = decode(picture, (want[0], want[1]), data["in_channels"], data.get("white"))
    except Exception as error:
        # By its format a damaged file may raise any.
        what = image if isinstance(image, str | Path) else f"the {type(image).__name__}"
        raise ValueError(f"cannot read {what}: {reason(error)}") from error
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1) / 255


def _values(image: np.ndarray | Tensor) -> Tensor:
    """Numbers of 0 to 1, float32, (C, H, W)."""
    if isinstance(image, Tensor):
        values, shape = image.detach().cpu(), "a tensor (C, H, W)"
    else:
        values, shape = torch.from_numpy(np.ascontiguousarray(image)), "an array (H, W) or (H, W, C)"
        values = values[None] if values.ndim == 2 else values.movedim(-1, 0) if values.ndim == 3 else values
    if values.ndim != 3 or not values.numel():
        raise ValueError(f"an image is {shape}, got {tuple(image.shape)}")
    if values.dtype == torch.uint8:
        return values.float() / 255
    if not values.is_floating_point():
        raise ValueError(f"an image has numbers of 0 to 1, or 0 to 255 in uint8, got {values.dtype}")
    low, high = float(values.min()), float(values.max())
    if not 0 <= low <= high <= 1:
        raise ValueError(f"an image has numbers of 0 to 1, not normalised, got {low:.3g} to {high:.3g}")
    return values.float()
