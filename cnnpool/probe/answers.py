"""Predictions of a model for shifted images."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from cnnpool.probe.base import device_of, examined
from cnnpool.probe.parts import at_once
from cnnpool.probe.shift import shift

BATCH = 256


class NoLogitsError(ValueError):
    """The model returns something else than a row of logits for each image."""


def logits(model: nn.Module, images: Tensor) -> Tensor:
    """Logits (N, K) of images (N, C, H, W), on the CPU.

    Raises:
        NoLogitsError: if the model returns anything else.
    """
    with examined(model), torch.no_grad():
        return torch.cat([_row(model(part.to(device_of(model)))) for part in images.split(_size(images))])


def _row(output: Any) -> Tensor:
    """``output`` on the CPU, if it is logits (N, K)."""
    if not isinstance(output, Tensor) or output.ndim != 2:
        found = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else f"a {type(output).__name__}"
        raise NoLogitsError(f"the model must return logits (N, K), one row an image, got {found}")
    return output.cpu()


def answers(
    model: nn.Module,
    images: Tensor,
    shifts: Tensor,
    view: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Tensor:
    """Top-1 classes (N,) of images (N, C, H, W), each shifted by its row of ``shifts`` (N, 2) or all by (2,):
    circularly, or as ``view`` of (images, shifts) shows them.
    """
    size = _size(images)
    parts = zip(images.split(size), shifts.expand(len(images), 2).split(size), strict=True)
    if view:
        return torch.cat([logits(model, view(some, by)).argmax(1) for some, by in parts])
    if shifts.dim() == 1:
        down, right = shifts.tolist()
        return torch.cat([logits(model, shift(some, down, right)).argmax(1) for some, _ in parts])
    return torch.cat([logits(model, shift(some, *by.unbind(1))).argmax(1) for some, by in parts])


def _size(images: Tensor) -> int:
    return min(BATCH, at_once(images, kept=False))


def square(radius: int) -> list[tuple[int, int]]:
    """All shifts of up to ``radius`` pixels each way, row by row."""
    span = range(-radius, radius + 1)
    return [(down, right) for down in span for right in span]


def cross(distance: int) -> list[tuple[int, int]]:
    """The shifts by ``distance`` pixels in the four directions of the axes; a single one for 0."""
    return list(dict.fromkeys([(distance, 0), (-distance, 0), (0, distance), (0, -distance)]))
