"""Effective receptive field: the pixels that a central unit of a map depends on (Luo 2016)."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cnnpool.as_found import examined
from cnnpool.bounds import Count
from cnnpool.probe.base import Batch, Probe, Result, Stages, captured, device_of
from cnnpool.probe.shift import parts
from cnnpool.quantity import Quantity, ratio

THRESHOLD = 1 - 0.9545
"""Two standard deviations of a Gaussian (Luo 2016, arXiv:1701.04128)."""


@dataclass(kw_only=True)
class ReceptiveField(Probe):
    """Effective receptive field of every stage's output.

    Args:
        samples: images, >= 1.
    """

    section = "receptive_field"
    quantities = (
        ratio(
            "stages.<stage>.effective_px",
            "effective receptive field",
            "Side of a square with as many pixels as have more than 4.55 % of the largest mean gradient of "
            "the stage's central output (Luo 2016).",
            unit="px",
        ),
        Quantity(
            "stages.<stage>.reach_px",
            "receptive field",
            "Side of the smallest square around all pixels that the stage's central output depends on.",
            unit="px",
            range=(0.0, None),
        ),
    )

    samples: Count = 64

    def read(self, model: nn.Module, stages: Stages, batch: Batch) -> Result:
        images = batch.first(self.samples).images
        fields = receptive_fields(model, stages, images)
        return {
            "samples": len(images),
            "stages": {
                stage: {**extent(field), "map": (field / field.max().clamp_min(1e-300)).tolist()}
                for stage, field in fields.items()
            },
        }


def receptive_fields(model: nn.Module, stages: Stages, images: Tensor) -> dict[str, Tensor]:
    """By stage, E |dy/dx| (H, W), summed over channels: y the centre (lower right of four), x the image."""
    sums: dict[str, Tensor] = {}
    for (part,) in parts(images):
        with examined(model), captured(stages) as seen, torch.enable_grad():
            part = part.to(device_of(model)).detach().requires_grad_()
            model(part)
            for stage, value in seen.items():
                centre = value[:, :, value.shape[2] // 2, value.shape[3] // 2].sum()
                (field,) = torch.autograd.grad(centre, part, retain_graph=True)
                summed = field.double().abs().sum(1).sum(0).cpu()
                sums[stage] = sums[stage] + summed if stage in sums else summed
    return {stage: field / len(images) for stage, field in sums.items()}


def extent(field: Tensor) -> dict[str, float]:
    """The quantities of ``ReceptiveField`` for a field (H, W); ``reach_px`` need not be centred."""
    spans = [torch.nonzero((field > 0).any(axis))[:, 0] for axis in (0, 1)]
    return {
        "effective_px": (field > THRESHOLD * field.max()).sum().item() ** 0.5,
        "reach_px": max((int(s[-1] - s[0]) + 1 for s in spans if len(s)), default=0),
    }
