"""Aliasing: how much of every stage's output is high frequencies in disguise."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from cnnpool.bounds import Count, CountOrZero
from cnnpool.probe.base import Result, captured, device_of, examined
from cnnpool.probe.spectrum import alias_classes, alias_energy_ratio, dense_output, high_frequency_share
from cnnpool.probe.windows import stride_of
from cnnpool.registry import checked


@checked
class Aliasing:
    """Alias energy ratio, high-frequency share and Ribeiro & Schon's classes at every stage.

    The spectrum is that of the operator's output at stride 1 on the maps it really sees. Of an operator that
    lets the image choose its sampling grid (aps, lps, tips) it says what a fixed grid would see.

    Args:
        samples: images, >= 1.
        every_epochs: read after every so many epochs; 0: only at the end.

    Raises:
        ValueError: if an option is out of range.
    """

    section = "aliasing"

    def __init__(self, *, samples: Count = 16, every_epochs: CountOrZero = 0):
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
        with examined(model), captured(stages, inputs=True) as maps, torch.no_grad():
            model(images.to(device_of(model)))
            found = {stage: stage_aliasing(stages[stage], x) for stage, x in dict(maps).items()}
        return {
            "border": "circular",
            "samples": len(images),
            "stages": {stage: values for stage, values in found.items() if values},
        }


def stage_aliasing(operator: nn.Module, maps: Tensor) -> dict[str, float]:
    """All measures of one operator on its input (N, C, H, W); none if it does not subsample by its stride."""
    stride = stride_of(operator)
    dense = dense_output(operator, maps, stride) if stride != (1, 1) else None
    if dense is None:
        return {}
    return {
        "alias_energy_ratio": alias_energy_ratio(dense, stride),
        "high_frequency_share": high_frequency_share(dense, stride),
        **alias_classes(dense, stride),
    }
