"""Measures of downsampling as torchmetrics: update, compute, reset, summed over processes."""

from typing import Any

import torch
from numpy.random import SeedSequence
from torch import Tensor, distributed, nn
from torchmetrics import Metric

from cnnpool.as_found import examined
from cnnpool.lightning.probe_callback import unnoticed
from cnnpool.probe.base import described
from cnnpool.probe.consistency import PRESETS, paired_predictions, refusal


class ShiftConsistency(Metric):
    """Pairs of shifted views with the same top-1 class, divided by all pairs (Zhang 2019).

    Args:
        preset: the protocol for drawing pairs, a name in ``cnnpool.probe.consistency.PRESETS``.
        seed: seed of the drawn shifts; every update draws new ones, also after ``reset``, in each process.
        options: options of ``torchmetrics.Metric``.

    Raises:
        ValueError: for an unknown preset.
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False
    agreeing: Tensor
    pairs: Tensor

    def __init__(
        self,
        preset: str = "distinct",
        *,
        seed: int = 0,
        **options: Any,
    ):
        super().__init__(**options)
        if preset not in PRESETS:
            raise ValueError(f"no preset named {preset!r}; choose from {', '.join(sorted(PRESETS))}")
        self.preset = PRESETS[preset]
        self.seed = seed
        # No state: torchmetrics resets those for every batch of ``forward``.
        self.drawn = 0
        self.add_state("agreeing", torch.tensor(0), dist_reduce_fx="sum")
        self.add_state("pairs", torch.tensor(0), dist_reduce_fx="sum")
        # A constant: in a MetricCollection metrics become one for good while their states are equal.
        drawing = torch.tensor([*f"{preset} {seed}".encode()])
        self.add_state("drawing", drawing, dist_reduce_fx="max")

    def update(self, model: nn.Module, images: Tensor) -> None:
        """Add one pair per image of (N, C, H, W), normalised; ``model`` is left unchanged.

        Raises:
            ValueError: if ``images`` are no such tensor or of a size that the preset cannot measure, or the
                model returns no logits (N, classes).
        """
        if not (isinstance(images, Tensor) and images.ndim == 4):
            raise ValueError(f"images must be a tensor (N, C, H, W), got {described(images)}")
        rank = distributed.get_rank() if distributed.is_initialized() else 0
        seed = int(SeedSequence((self.seed, rank, self.drawn)).generate_state(1)[0])
        with unnoticed(model), examined(model), torch.no_grad():
            if reason := refusal(model, self.preset, images):
                raise ValueError(reason)
            first, second = paired_predictions(model, images, self.preset, seed)
        self.agreeing += (first == second).sum().to(self.agreeing.device)
        self.pairs += len(first)
        self.drawn += len(first)

    def compute(self) -> Tensor:
        """The share, 0..1; NaN before the first update."""
        return self.agreeing / self.pairs


class GradientSparsity(Metric):
    """Entries of gradients that are exactly zero, divided by all; ``options`` of ``torchmetrics.Metric``."""

    is_differentiable = False
    higher_is_better = None
    full_state_update = False
    zeros: Tensor
    entries: Tensor

    def __init__(self, **options: Any):
        super().__init__(**options)
        self.add_state("zeros", torch.tensor(0), dist_reduce_fx="sum")
        self.add_state("entries", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, gradient: Tensor) -> None:
        """Add a gradient of any shape."""
        self.zeros += (gradient == 0).sum().to(self.zeros.device)
        self.entries += gradient.numel()

    def compute(self) -> Tensor:
        """The share, 0..1; NaN before the first update."""
        return self.zeros / self.entries
