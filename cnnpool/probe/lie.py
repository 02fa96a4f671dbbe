"""Lie derivative: local equivariance error of each stage, in the limit of small shifts (Gruver 2023)."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from cnnpool.probe.base import (
    AtLeastTwo,
    Batch,
    Probe,
    Result,
    Stages,
    captured,
    device_of,
    examined,
    paddings,
)
from cnnpool.probe.shift import fourier_derivative
from cnnpool.quantity import ratio
from cnnpool.registry import checked


@checked
@dataclass(kw_only=True)
class LieDerivative(Probe):
    """Local equivariance error of every stage, and local invariance error of the logits, under translation.

    Args:
        samples: images, >= 2.
        every_epochs: read after every so many epochs; 0: only at the end.

    Raises:
        ValueError: if an option is out of range.

    Example:
        >>> from cnnpool.probe import LieDerivative
        >>> from cnnpool.probe.base import example
        >>> found = LieDerivative().measure(*example())
        >>> sorted(found)
        ['border', 'lie_derivative', 'model_padding', 'relative_lie_derivative', 'samples', 'stages']
    """

    section = "lie"
    quantities = (
        ratio(
            "lie_derivative",
            "Lie derivative of the logits",
            "Squared rate of change of the logits as the image moves, per squared pixel, divided by "
            "the number of classes (Gruver 2023).",
            better="lower",
        ),
        ratio(
            "relative_lie_derivative",
            "relative Lie derivative of the logits",
            "The Lie derivative of the logits divided by the mean squared difference between the "
            "logits of different images.",
            better="lower",
        ),
        ratio(
            "stages.<stage>.lie_derivative",
            "Lie derivative",
            "Squared rate at which a stage's output departs from moving along as the image moves, per "
            "squared pixel, divided by the number of outputs (Gruver 2023).",
            better="lower",
        ),
        ratio(
            "stages.<stage>.relative_lie_derivative",
            "relative Lie derivative",
            "The Lie derivative of a stage divided by the mean squared difference between its outputs "
            "for different images.",
            better="lower",
        ),
    )

    samples: AtLeastTwo = 64

    def read(self, model: nn.Module, stages: Stages, batch: Batch) -> Result:
        images = batch.first(self.samples).images
        found = lie_derivatives(model, stages, images)
        return {
            **found.pop(""),
            "border": "circular",
            "samples": len(images),
            "model_padding": paddings(model),
            "stages": found,
        }


def lie_derivatives(model: nn.Module, stages: Stages, images: Tensor) -> dict[str, dict[str, float]]:
    """By stage f: E ||d/dt at 0 of T_{-t} f(T_t x)||^2 / dim (Gruver 2023, arXiv:2210.02984), per px^2.

    T_t moves the image by t pixels with ideal interpolation, T_{-t} the stage's output by as many of the
    image's pixels back; dim is the number of outputs. The mean over images and over both axes. The logits,
    under the name "", are not moved back.

    Returns:
        ``lie_derivative`` as above; ``relative_lie_derivative``: the same divided by
        E ||f(x) - f(x')||^2 / dim over pairs of different images (each with the next).
    """
    images = images.to(device_of(model))
    sums: dict[str, float] = {}
    apart: dict[str, float] = {}
    for axis in (2, 3):
        for name, (value, tangent) in _pushed(model, stages, images, axis).items():
            rate = tangent.double()
            if name:
                per_px = value.shape[axis] / images.shape[axis]
                rate = rate - per_px * fourier_derivative(value.double(), axis)
            sums[name] = sums.get(name, 0.0) + rate.square().mean().item() / 2
            apart[name] = (value.double() - value.double().roll(1, 0)).square().mean().item()
    return {
        name: {
            "lie_derivative": total,
            "relative_lie_derivative": total / apart[name] if apart[name] else 0.0,
        }
        for name, total in sums.items()
    }


def _pushed(model: nn.Module, stages: Stages, images: Tensor, axis: int) -> dict[str, tuple[Tensor, Tensor]]:
    """Output and its derivative as the image moves along ``axis``, by stage, and of the logits as ""."""
    with examined(model), captured(stages) as seen, torch.no_grad(), _quiet(), forward_ad.dual_level():
        moving = forward_ad.make_dual(images, fourier_derivative(images, axis))
        seen[""] = model(moving)
        pairs = {name: forward_ad.unpack_dual(output) for name, output in seen.items()}
        return {
            name: (value, torch.zeros_like(value) if tangent is None else tangent)
            for name, (value, tangent) in pairs.items()
        }


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        # torch compiles its forward-mode rules by TorchScript on first use, which warns of deprecation.
        warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", FutureWarning)
        yield
