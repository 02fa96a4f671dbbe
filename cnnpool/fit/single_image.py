"""A single image as the test images of a training were prepared, and its predicted class."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cnnpool.data.augment import centre


class Prediction(NamedTuple):
    """The most probable class of an image, and its probability, 0..1."""

    name: str
    probability: float


def single_image(image: str | Path | Tensor, data: Mapping[str, Any]) -> Tensor:
    """Resize the image as for the test, crop its centre and normalise it."""
    # Imported late: a training reads its images elsewhere.
    from torchvision.transforms.v2 import functional as transforms

    from cnnpool.data.decode import decode, reason

    want = data.get("whole", data["size"])
    if isinstance(image, Tensor):
        values = image
    else:
        try:
            pixels = decode(str(image), tuple(want), data["in_channels"], data.get("white"))
        except Exception as error:
            # By its format a damaged file may raise any.
            raise ValueError(f"cannot read {image}: {reason(error)}") from error
        values = torch.from_numpy(pixels.copy()).permute(2, 0, 1) / 255
    channels, *have = values.shape
    if channels != data["in_channels"]:
        raise ValueError(f"the image has {channels} channels, and the network takes {data['in_channels']}")
    if have != list(want):
        scale = max(side / own for side, own in zip(want, have, strict=True))
        nearest = [max(side, round(own * scale)) for side, own in zip(want, have, strict=True)]
        values = transforms.center_crop(transforms.resize(values, nearest, antialias=True), list(want))
    values = centre(values[None], tuple(data["size"]))[0]
    normalised: Tensor = transforms.normalize(values, data["mean"], data["std"])
    return normalised
