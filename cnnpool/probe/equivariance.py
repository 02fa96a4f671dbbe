"""Equivariance: whether a stage's output moves by one pixel when the image moves by its total stride."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from cnnpool.probe.base import Result, at_least, captured, device_of, examined, paddings
from cnnpool.probe.shift import shift


class Equivariance:
    """Equivariance error of every stage at its total stride: a detector of bugs, and of borders.

    Where everything is circular and the stride divides the map, shifts by the stride commute with a stage
    exactly: in float64 the error is that of rounding, about 1e-30 (1e-15 squared). What remains in a net with
    zero padding is what leaks in from its borders.

    Args:
        samples: images, >= 2.
        every_epochs: read after every so many epochs; 0: only at the end.

    Raises:
        ValueError: if an option is out of range.
    """

    section = "equivariance"

    def __init__(self, *, samples: int = 64, every_epochs: int = 0):
        at_least("equivariance", 2, samples=samples)
        at_least("equivariance", 0, every_epochs=every_epochs)
        self.samples = samples
        self.every_epochs = every_epochs

    def measure(
        self,
        model: nn.Module,
        stages: Mapping[str, nn.Module],
        images: Tensor,
        labels: Tensor,
        black: Tensor | None = None,
    ) -> Result:
        images = images[: self.samples]
        return {
            "border": "circular",
            "samples": len(images),
            "model_padding": paddings(model),
            "stages": equivariance_error(model, stages, images),
        }


def equivariance_error(
    model: nn.Module, stages: Mapping[str, nn.Module], images: Tensor
) -> dict[str, dict[str, float]]:
    """By stage phi: E ||phi(S_d x) - S_1 phi(x)||^2 / E ||phi(x) - phi(x')||^2.

    S_d moves the image circularly by the stage's total stride d, S_1 the stage's output by one pixel. The
    means are over images and the four directions, and over pairs of different images (each with the next).

    Returns:
        ``equivariance_error``, and ``shift_px``: d, down or across. Stages whose output size does not divide
        the image's are left out.
    """
    with examined(model), captured(stages) as seen, torch.no_grad():

        def outputs(batch: Tensor) -> dict[str, Tensor]:
            model(batch.to(device_of(model)))
            return dict(seen)

        still = outputs(images)
        found = {}
        for stage, value in still.items():
            stride = total_stride(images, value)
            if stride is None:
                continue
            apart = _squared(value, value.roll(1, 0))
            ways = [(1, 0), (-1, 0), (0, 1), (0, -1)]
            errors = [
                _squared(outputs(shift(images, i * stride[0], j * stride[1]))[stage], shift(value, i, j))
                for i, j in ways
            ]
            error = sum(errors) / len(errors)
            found[stage] = {"equivariance_error": error / apart if apart else error, "shift_px": stride[0]}
    return found


def total_stride(images: Tensor, maps: Tensor) -> tuple[int, int] | None:
    """Image pixels per pixel of the maps, vertically and horizontally; None unless they are whole numbers."""
    sizes = list(zip(images.shape[-2:], maps.shape[-2:], strict=True))
    if maps.dim() != 4 or any(large % small for large, small in sizes):
        return None
    return tuple(large // small for large, small in sizes)


def _squared(a: Tensor, b: Tensor) -> float:
    return (a.double() - b.double()).square().flatten(1).sum(1).mean().item()
