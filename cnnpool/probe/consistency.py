"""Consistency: how often two shifted views of an image get the same prediction (Zhang 2019)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from cnnpool.probe.predictions import NoLogitsError, logits, predictions
from cnnpool.probe.presets import Preset

EXACT = 64
"""A protocol of at most so many shifts is computed over all of them."""
PAIRS = 10
"""Pairs of views that each image gets where there are more: with 1,024 images as many as the papers draw."""
NORMAL_95 = 1.959964
Seen = dict[tuple[str, int, int], Tensor]
"""Predictions of all images by border and shift: protocols share shifts."""


def paired_predictions(
    model: nn.Module, images: Tensor, preset: Preset, seed: int, black: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Top-1 classes (N,) of two shifted views of every image (N, C, H, W), drawn by ``preset``."""
    generator = torch.Generator().manual_seed(seed)
    height, width = images.shape[-2:]
    first, second = preset.draw(len(images), (height, width), generator)

    def views(x: Tensor, by: Tensor) -> Tensor:
        return preset.view(x, by, black)

    return predictions(model, images, first, views), predictions(model, images, second, views)


def refusal(model: nn.Module, preset: Preset, images: Tensor) -> str | None:
    """Why ``model`` cannot be measured by ``preset`` on such images; None if it can.

    Raises:
        NoLogitsError: if the model returns no logits, whatever the preset.
    """
    height, width = images.shape[-2:]
    if reason := preset.refusal((height, width)):
        return reason
    if preset.border == "crop":
        view = preset.view(images[:1], torch.zeros(1, 2, dtype=torch.int64))
        try:
            logits(model, view)
        except NoLogitsError:
            raise
        except (RuntimeError, ValueError):
            return f"the model does not take crops of {view.shape[-2]}x{view.shape[-1]}"
    return None


@dataclass(frozen=True)
class Agreement:
    """Over the pairs of views of each image, (N,) in float64.

    Args:
        same: share of pairs with the same top-1 class.
        distinct: the same of pairs of two different shifts.
        correct: share of views that are classified correctly.
        both: share of pairs that are both classified correctly.
        shifts: of the protocol.
        exact: whether all pairs of them were counted.
    """

    same: Tensor
    distinct: Tensor
    correct: Tensor
    both: Tensor
    shifts: int
    exact: bool


def over_all(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    preset: Preset,
    black: Tensor | None = None,
    seen: Seen | None = None,
) -> Agreement:
    """All pairs of shifts of ``preset``: what its draws give on average, by one forward pass a shift.

    A pair that a whole batch shares, as in some papers, has the same mean as one drawn for each image, and
    many times its variance.
    """
    seen = {} if seen is None else seen
    height, width = images.shape[-2:]
    tops = []
    for down, right in preset.shifts((height, width)).tolist():
        key = (preset.border, down, right)
        if key not in seen:
            moved = torch.tensor((down, right)).expand(len(images), 2)
            seen[key] = predictions(model, images, moved, lambda x, by: preset.view(x, by, black))
        tops.append(seen[key])
    votes = torch.stack(tops)
    shifts = len(votes)
    counts = torch.zeros(len(images), int(votes.max()) + 1, dtype=torch.float64)
    counts.scatter_add_(1, votes.T, torch.ones(votes.T.shape, dtype=torch.float64))
    right = (votes == labels.cpu()).double().sum(0)
    same, distinct = counts.square().sum(1), (counts * (counts - 1)).sum(1)
    others = max(shifts * (shifts - 1), 1)
    both = right * (right - 1) / others if preset.distinct else (right / shifts).square()
    return Agreement(
        same=distinct / others if preset.distinct else same / shifts**2,
        distinct=distinct / others,
        correct=right / shifts,
        both=both,
        shifts=shifts,
        exact=True,
    )


def over_drawn(
    model: nn.Module, images: Tensor, labels: Tensor, preset: Preset, seed: int, black: Tensor | None = None
) -> Agreement:
    """``PAIRS`` pairs of each image, drawn for it alone, so the spread over images holds that of draws."""
    height, width = images.shape[-2:]
    found = {}
    for name, drawn in (("own", replace(preset, per_image=True)), ("distinct", preset.paired_per_image())):
        pairs = [paired_predictions(model, images, drawn, seed + 7919 * k, black) for k in range(PAIRS)]
        found[name] = torch.stack([torch.stack(pair) for pair in pairs])
    own, right = found["own"], found["own"] == labels.cpu()
    return Agreement(
        same=(own[:, 0] == own[:, 1]).double().mean(0),
        distinct=(found["distinct"][:, 0] == found["distinct"][:, 1]).double().mean(0),
        correct=right.double().mean((0, 1)),
        both=right.all(1).double().mean(0),
        shifts=len(preset.shifts((height, width))),
        exact=False,
    )


def by_preset(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    preset: Preset,
    seed: int,
    black: Tensor | None = None,
    seen: Seen | None = None,
) -> Agreement:
    """Exactly over all shifts of a protocol where they are few, else over pairs drawn for every image."""
    height, width = images.shape[-2:]
    if len(preset.shifts((height, width))) <= EXACT:
        return over_all(model, images, labels, preset, black, seen)
    return over_drawn(model, images, labels, preset, seed, black)


def interval(shares: Tensor) -> tuple[float, float]:
    """The 95 % interval of the mean of (N,) shares, normal approximation, within 0..1."""
    mean = shares.mean().item()
    half = NORMAL_95 * shares.std().item() / math.sqrt(len(shares)) if len(shares) > 1 else math.inf
    return max(mean - half, 0.0), min(mean + half, 1.0)


def by_presets(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    presets: Mapping[str, Preset],
    seed: int,
    black: Tensor | None = None,
) -> dict[str, Any]:
    """Results under the named presets.

    Returns:
        ``consistency``, ``consistency_distinct`` by name; ``consistency_given_correct`` of the first; under
        ``presets`` what each preset is and gave, with the 95 % interval of its consistency over images (and
        draws); under ``skipped`` why one was not measured.
    """
    reasons = {name: refusal(model, preset, images) for name, preset in presets.items()}
    fitting = {name: preset for name, preset in presets.items() if reasons[name] is None}
    seen: Seen = {}
    found = {name: by_preset(model, images, labels, p, seed, black, seen) for name, p in fitting.items()}
    result: dict[str, Any] = {
        "consistency": {name: one.same.mean().item() for name, one in found.items()},
        "consistency_distinct": {name: one.distinct.mean().item() for name, one in found.items()},
    }
    if found:
        result["consistency_given_correct"] = _given_correct(next(iter(found.values())))
    result["presets"] = {name: fitting[name].facts() | _facts(one) for name, one in found.items()}
    if skipped := {name: reason for name, reason in reasons.items() if reason}:
        result["skipped"] = skipped
    return result


def _given_correct(one: Agreement) -> float | None:
    """Pairs that are both classified correctly, divided by the first views that are; None if none is."""
    correct = one.correct.sum().item()
    return one.both.sum().item() / correct if correct else None


def _facts(one: Agreement) -> dict[str, Any]:
    low, high = interval(one.same)
    return {
        "given_correct": _given_correct(one),
        "accuracy": one.correct.mean().item(),
        "consistency_low": low,
        "consistency_high": high,
        "shifts": one.shifts,
        "exact": one.exact,
    }
