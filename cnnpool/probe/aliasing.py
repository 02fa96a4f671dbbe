"""Aliasing: the share of every stage's output that comes from folded high frequencies."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cnnpool.bounds import Count
from cnnpool.probe.base import Batch, Probe, Result, Stages, captured, device_of, examined
from cnnpool.probe.parts import mean_over
from cnnpool.probe.spectrum import (
    alias_classes,
    alias_energies,
    dense_output,
    low_energies,
    share_above,
    share_aliased,
)
from cnnpool.probe.windows import stride_of
from cnnpool.quantity import fraction
from cnnpool.registry import checked

ENTRIES = 1 << 22
"""Of outputs at stride 1 whose spectra are computed at once, in complex128 64 MiB."""


@checked
@dataclass(kw_only=True)
class Aliasing(Probe):
    """Alias energy ratio, high-frequency share and Ribeiro & Schon's classes at every stage.

    The spectrum is that of the operator's output at stride 1 on the maps it really sees. Of an operator that
    lets the image choose its sampling grid (aps, lps, tips) it says what a fixed grid would see.

    Args:
        samples: images, >= 1.
        every_epochs: read after every so many epochs; 0: only at the end.

    Raises:
        ValueError: if an option is out of range.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from cnnpool.pool import MaxPool2d
        >>> from cnnpool.probe import Aliasing
        >>> model = nn.Sequential(MaxPool2d(1), nn.Flatten(), nn.Linear(16, 10))
        >>> images, labels = torch.rand(4, 1, 8, 8), torch.zeros(4, dtype=torch.int64)
        >>> found = Aliasing().measure(model, {"s1": model[0]}, images, labels)
        >>> sorted(found)
        ['border', 'samples', 'stages']
    """

    section = "aliasing"
    quantities = (
        fraction(
            "stages.<stage>.alias_energy_ratio",
            "alias energy",
            "Energy of a stage's subsampled output that would not be there had frequencies above the "
            "new Nyquist frequency been removed first, divided by the output's energy; 0 is free of "
            "aliasing.",
            better="lower",
            shown="compare",
            range=(0.0, None),
        ),
        fraction(
            "stages.<stage>.high_frequency_share",
            "high-frequency share",
            "Energy of a stage's output at stride 1 that is not below the new Nyquist frequency, "
            "divided by all of its energy.",
        ),
        fraction(
            "stages.<stage>.nonaliased",
            "frequencies not aliased",
            "Frequencies of the subsampled map to which the low frequency alone contributes (within "
            "20 dB of the strongest), divided by all frequencies (Ribeiro and Schon 2021).",
            shown="file",
        ),
        fraction(
            "stages.<stage>.aliased",
            "frequencies aliased",
            "Frequencies of the subsampled map to which one high frequency alone contributes (within "
            "20 dB of the strongest), divided by all frequencies.",
            shown="file",
        ),
        fraction(
            "stages.<stage>.tangled",
            "frequencies tangled",
            "Frequencies of the subsampled map to which several frequencies contribute (within 20 dB "
            "of the strongest) and can no longer be told apart, divided by all frequencies.",
        ),
        fraction(
            "stages.<stage>.nopass",
            "frequencies not passed",
            "Frequencies of the subsampled map to which nothing within 20 dB of the strongest "
            "contributes, divided by all frequencies.",
            shown="file",
        ),
    )

    samples: Count = 16

    def read(self, model: nn.Module, stages: Stages, batch: Batch) -> Result:
        images = batch.first(self.samples).images
        with examined(model), captured(stages, inputs=True) as maps, torch.no_grad():
            model(images.to(device_of(model)))
            found = {stage: stage_aliasing(stages[stage], x) for stage, x in dict(maps).items()}
        return {
            "border": "circular",
            "samples": len(images),
            "stages": {stage: values for stage, values in found.items() if values},
        }


def stage_aliasing(operator: nn.Module, maps: Tensor) -> dict[str, float]:
    """Aliasing of one operator on its input (N, C, H, W); empty if it does not subsample by its stride."""
    stride = stride_of(operator)
    first = dense_output(operator, maps[:1], stride) if stride != (1, 1) else None
    if first is None:
        return {}
    counts, classes = [], []
    energies = torch.zeros(4, dtype=torch.float64)
    for some in maps.split(max(1, ENTRIES // first.numel())):
        dense = dense_output(operator, some, stride)
        assert dense is not None
        counts.append(len(some))
        found = *alias_energies(dense, stride), *low_energies(dense, stride)
        energies += torch.tensor(found, dtype=torch.float64)
        classes.append(alias_classes(dense, stride))
    aliased, sampled, low, total = energies.tolist()
    return {
        "alias_energy_ratio": share_aliased(aliased, sampled),
        "high_frequency_share": share_above(low, total),
        **{name: mean_over([one[name] for one in classes], counts) for name in classes[0]},
    }
