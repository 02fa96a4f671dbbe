"""Gradient routing: how much of a feature map receives gradient through each downsampling stage."""

from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from cnnpool.as_found import examined
from cnnpool.bounds import Count, CountOrZero, Share
from cnnpool.probe.base import Batch, Probe, Result, Stages
from cnnpool.probe.gradient_taps import Tap, adjacent_weights, backpropagate
from cnnpool.probe.shift import mean_over, parts
from cnnpool.probe.windows import share, shares_of, stride_of, tie_rule, ties, winner_sums
from cnnpool.quantity import Quantity, Shown, fraction, ratio


def _sparsity(where: str, title: str, of: str, zero: Shown) -> tuple[Quantity, ...]:
    """The quantities of ``sparsity`` at ``where`` of every stage."""
    key = f"<stage>.{where}"
    shown: Shown = "file" if where else "probe"
    return (
        fraction(
            f"{key}zero_fraction",
            f"zero gradient{title}",
            f"Entries of the loss gradient {of} that are exactly zero, divided by all entries.",
            shown=zero,
            headline=not where,
        ),
        fraction(
            f"{key}small_fraction",
            f"small gradient{title}",
            f"Entries of the loss gradient {of} of at most epsilon times the largest, divided by all.",
            shown="file",
        ),
        ratio(
            f"{key}participation_ratio",
            f"participation ratio{title}",
            f"(sum |g|)^2 / (D sum g^2) over the D entries of the loss gradient {of}: 1 where all are "
            "equally large, 1/D for a single one.",
            range=(0.0, 1.0),
            shown=shown,
        ),
        ratio(
            f"{key}hoyer",
            f"Hoyer sparsity{title}",
            f"(sqrt(D) - |g|_1 / |g|_2) / (sqrt(D) - 1) over the D entries of the loss gradient {of}: 0 "
            "where all are equally large, 1 for a single one (Hoyer 2004).",
            range=(0.0, 1.0),
            shown="file",
        ),
    )


SPARSITY = (
    *_sparsity("", "", "at the input of a downsampling stage, of each image by itself", "compare"),
    *_sparsity(
        "before_activation.",
        " before activation",
        "before the activation function that feeds a stage, of each image by itself",
        "probe",
    ),
    *_sparsity("<filters>.", ", <filters>", "of a batch at the filters before, in or after a stage", "file"),
)


@dataclass(kw_only=True)
class GradientRouting(Probe):
    """Sparsity, coverage, ties and winners at every stage, from the loss gradient of a batch.

    By stage: ``sparsity`` and coverage of the gradient at the stage's input, the same sparsity in
    ``before_activation``, and for the batch gradient of the adjacent learnt filters in ``weights_before``,
    ``weights_own`` and ``weights_after``; ``ties`` (the rule in force), tied and zero windows, ``winners`` by
    place in the window (also separately ``winners_untied`` and ``winners_tied``), ``phase_imbalance``.

    Args:
        samples: images of the probe batch, >= 1; coverage depends on it.
        epsilon: a gradient below epsilon times the sample's largest counts as small, 0..1.
    """

    section = "gradient"
    quantities = (
        *SPARSITY,
        fraction(
            "<stage>.coverage",
            "coverage",
            "Entries of a stage's input, channels counted separately, to which at least one image of the "
            "probe batch sends gradient, divided by all entries: it grows with the batch.",
        ),
        fraction(
            "<stage>.coverage_iid",
            "coverage of independent images",
            "Coverage if images chose their entries independently: 1 - (1 - share of non-zero "
            "entries)^images.",
            shown="file",
        ),
        fraction(
            "<stage>.tied_windows",
            "tied windows",
            "Windows whose largest value occurs more than once, divided by all windows.",
        ),
        fraction("<stage>.zero_windows", "zero windows", "Windows of zeros alone, divided by all windows."),
        ratio(
            "<stage>.phase_imbalance",
            "phase imbalance",
            "Standard deviation of the mean gradient magnitude over the positions within a stride, divided "
            "by its mean: 0 where all positions get the same.",
        ),
    )

    samples: Count = 128
    epsilon: Share = 1e-3
    every_epochs: CountOrZero = 1

    def read(self, model: nn.Module, stages: Stages, batch: Batch) -> Result:
        images, labels, *_ = batch.first(self.samples)
        layers = adjacent_weights(model, stages, images[:1])
        weights = {id(p): p for sides in layers.values() for p in sides.values()}
        found: dict[str, StageRouting] = {}
        gradients: list[Tensor] = []
        for some, theirs in parts(images, labels):
            taps, added = backpropagate(model, stages, some, theirs, list(weights.values()))
            gradients = list(map(torch.add, gradients, added)) if gradients else added
            with examined(model):
                for stage, tap in taps.items():
                    found.setdefault(stage, StageRouting(stages[stage], self.epsilon)).add(tap)
        by_weight = dict(zip(weights, gradients, strict=True))
        return {
            stage: {
                **one.result(),
                # One gradient, that of the batch.
                **{
                    f"weights_{side}": sparsity(by_weight[id(p)][None], self.epsilon)
                    for side, p in layers[stage].items()
                },
            }
            for stage, one in found.items()
        }


class StageRouting:
    """The results of ``GradientRouting`` for one stage, except those of its filters."""

    def __init__(self, operator: nn.Module, epsilon: float):
        self.operator, self.epsilon = operator, epsilon
        self.parts: list[tuple[int, dict[str, Any]]] = []
        self.before: list[tuple[int, dict[str, float]]] = []
        self.reached: Tensor | None = None
        self.winners: list[Tensor] = []

    def add(self, tap: Tap) -> None:
        """Add one part of the batch."""
        count, entries = len(tap.gradient), as_it_lies(tap.gradient) != 0
        self.reached = entries.any(0) if self.reached is None else self.reached | entries.any(0)
        own = {**sparsity(tap.gradient, self.epsilon), **ties(tap.activation, self.operator)}
        phases = phase_means(tap.gradient, stride_of(self.operator))
        self.parts.append((count, {**own, "density": share(entries), "phases": phases}))
        if (sums := winner_sums(tap.activation, self.operator)) is not None:
            self.winners.append(sums)
        if tap.before is not None:
            self.before.append((count, sparsity(tap.before, self.epsilon)))

    def result(self) -> dict[str, Any]:
        """The results over all parts, at least one."""
        assert self.reached is not None
        samples, means = sum(count for count, _ in self.parts), mean_over(self.parts)
        phases = means.pop("phases")
        result: dict[str, Any] = {
            "coverage": share(self.reached),
            "coverage_iid": 1 - (1 - means.pop("density")) ** samples,
            **means,
            "phase_imbalance": imbalance(phases),
            "ties": tie_rule(self.operator),
            "samples": samples,
        }
        if self.winners:
            result |= shares_of(reduce(torch.add, self.winners))
        if self.before:
            result["before_activation"] = mean_over(self.before)
        return result


def sparsity(gradient: Tensor, epsilon: float = 1e-3) -> dict[str, float]:
    """Sparsity of the gradients (N, ...) of N samples; each value is a mean over the samples.

    Fractions are divided by all entries; the formulas are in the quantities above. A sample with zero
    gradient counts as the limit of a single non-zero entry among ever more: participation ratio 0, Hoyer 1.
    """
    magnitude = as_it_lies(gradient).abs()
    entries = magnitude.shape[1]
    largest = magnitude.amax(1, keepdim=True)
    # Scaled first: the measures are ratios, and squares of a loss gradient underflow in float32.
    scaled = magnitude / torch.where(largest > 0, largest, 1)
    first = scaled.sum(1, dtype=torch.float64)
    second = scaled.square().sum(1, dtype=torch.float64).clamp_min(1e-300)
    root = entries**0.5
    return {
        "zero_fraction": share(magnitude == 0),
        "small_fraction": share(magnitude <= epsilon * largest),
        "participation_ratio": (first.square() / (entries * second)).mean().item(),
        "hoyer": ((root - first / second.sqrt()) / max(root - 1, 1e-300)).clamp(0, 1).mean().item(),
    }


def as_it_lies(x: Tensor) -> Tensor:
    """One row per sample of (N, ...), without a copy in channels_last memory format."""
    return (x.movedim(1, -1) if x.dim() > 2 else x).flatten(1)


def phase_means(gradient: Tensor, stride: tuple[int, int]) -> Tensor:
    """Mean |g| at each of the stride's phases, (phases,), for gradients (N, C, H, W)."""
    magnitude = gradient.abs()
    rows, columns = (range(min(pair)) for pair in zip(stride, magnitude.shape[-2:], strict=True))
    phases = (magnitude[..., i :: stride[0], j :: stride[1]] for i in rows for j in columns)
    return torch.stack([phase.mean(dtype=torch.float64) for phase in phases])


def imbalance(phases: Tensor) -> float:
    """Standard deviation divided by mean, 0..sqrt(s^2 - 1) for the means of s^2 phases; 0 if all are zero."""
    mean = phases.mean()
    return (phases.std(correction=0) / mean).item() if mean else 0.0
