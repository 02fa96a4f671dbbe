"""Consistency: how often two shifted views of an image, drawn by ``PRESETS``, get one class (Zhang 2019)."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cnnpool.probe.base import size_of
from cnnpool.probe.shift import NoLogitsError, logits, predictions, shift

Border = Literal["circular", "zeros", "crop", "enlarged"]
PresetName = Literal[
    "distinct",
    "zhang_imagenet",
    "zhang_cifar",
    "aps_cifar",
    "aps_crop",
    "aps_imagenet",
    "lps_cifar",
    "lps_crop",
    "tips",
    "tips_fill",
    "flc_cifar",
    "one_px",
]
EXACT = 64
"""Most shifts of a protocol for computing it over all of them."""
PAIRS = 10
"""Drawn pairs of views per image for other protocols: for 1,024 images as many as the papers draw."""
NORMAL_95 = 1.959964
Seen = dict[tuple[str, int, int], Tensor]
"""Predictions of all images by border and shift, shared by protocols."""


@dataclass(frozen=True, kw_only=True)
class Preset:
    """The protocol that draws a pair of shifted views of an image.

    Both views are shifted, each by a vertical and a horizontal number of pixels from ``low`` to ``high``
    (both included), uniformly; null bounds mean all offsets that the border allows.

    Args:
        source: the paper.
        low, high: pixels; null: 0 and the number of offsets minus one.
        quarter: use the bounds -H/4 and H/4 instead.
        border: ``circular``: pixels wrap around. ``zeros``: zeros enter the normalised image, its mean
            colour, not black. ``crop``: 7/8 of the image (224 of 256), so that nothing enters.
            ``enlarged``: the image's size is cropped out of the image enlarged to 9/8 (36 for 32) by bilinear
            interpolation. Of both the offsets are 0..H/8 - 1.
        per_image: each image draws its own pair; otherwise ``batch`` images share one.
        distinct: the two views of a pair always have different shifts.
        least_size: the smallest suitable H and W, in pixels.
    """

    source: str
    low: int | None = None
    high: int | None = None
    quarter: bool = False
    border: Border = "circular"
    per_image: bool = False
    distinct: bool = False
    batch: int = 256
    least_size: int = 1

    def bounds(self, length: int) -> tuple[int, int]:
        """(lowest, highest) shift in pixels along an axis of ``length`` pixels."""
        if self.quarter:
            return -(length // 4), length // 4
        if self.low is not None and self.high is not None:
            return self.low, self.high
        return 0, (length if self.border in ("circular", "zeros") else length // 8) - 1

    def draw(self, n: int, size: tuple[int, int], generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw the shifts of the first and second views, each (N, 2): down, right."""
        every = self.shifts(size)
        pairs = n if self.per_image else -(-n // self.batch)
        first = torch.randint(len(every), (pairs,), generator=generator)
        if self.distinct:
            second = (first + torch.randint(1, len(every), (pairs,), generator=generator)) % len(every)
        else:
            second = torch.randint(len(every), (pairs,), generator=generator)
        if not self.per_image:
            first, second = (p.repeat_interleave(self.batch)[:n] for p in (first, second))
        return every[first], every[second]

    def shifts(self, size: tuple[int, int]) -> Tensor:
        """Every shift of a view, (P, 2): down, right."""
        (top, bottom), (left, right) = (self.bounds(length) for length in size)
        return torch.cartesian_prod(torch.arange(top, bottom + 1), torch.arange(left, right + 1))

    def view(self, images: Tensor, shifts: Tensor) -> Tensor:
        """Views of normalised images (N, C, H, W) under ``shifts`` (N, 2): down, right."""
        down, right = shifts.unbind(1)
        if self.border in ("circular", "zeros"):
            return shift(images, down, right, circular=self.border == "circular")
        height, width = images.shape[2:]
        if self.border == "enlarged":
            size = (height + height // 8, width + width // 8)
            images = F.interpolate(images, size, mode="bilinear", align_corners=False)
        else:
            height, width = height - height // 8, width - width // 8
        return shift(images, -down, -right)[..., :height, :width]

    def refusal(self, size: tuple[int, int]) -> str | None:
        """The reason why the preset does not suit images of ``size``; None if it does."""
        height, width = size
        if min(size) < self.least_size:
            return f"needs images of at least {self.least_size}x{self.least_size}, got {height}x{width}"
        if all(high <= low for low, high in map(self.bounds, size)):
            return f"leaves a {height}x{width} image a single position"
        return None


cifar = partial(Preset, low=-3, high=2)
PRESETS: dict[str, Preset] = {
    "distinct": Preset(
        source="cnnpool: -3..3 px, a distinct pair per image", low=-3, high=3, per_image=True, distinct=True
    ),
    "zhang_imagenet": Preset(
        source="Zhang 2019, ImageNet: crops of 224 out of 256 px, one pair per batch of 8",
        border="crop",
        batch=8,
        least_size=256,
    ),
    "zhang_cifar": Preset(
        source="Zhang 2019, CIFAR: every circular position, one pair per batch of 100", batch=100
    ),
    "aps_cifar": cifar(source="Chaman 2021, CIFAR: -3..2 px, circular, one pair per batch of 256"),
    "aps_crop": cifar(
        source="Chaman 2021, CIFAR: -3..2 px, crops of the image padded with zeros after normalisation, "
        "one pair per batch of 256",
        border="zeros",
    ),
    "aps_imagenet": Preset(
        source="Chaman 2021, ImageNet: -32..31 px, circular, one pair per batch",
        low=-32,
        high=31,
        least_size=64,
    ),
    "lps_cifar": cifar(source="Rojas-Gomez 2022, CIFAR: -3..2 px, circular, one pair per batch"),
    "lps_crop": cifar(
        source="Rojas-Gomez 2022, CIFAR: -3..2 px, crops of the image padded with zeros after "
        "normalisation, one pair per batch",
        border="zeros",
    ),
    "tips": Preset(source="Saha 2024: -H/4..H/4 px, circular, one pair per batch", quarter=True),
    "tips_fill": Preset(
        source="Saha 2024: -H/4..H/4 px, zeros enter after normalisation, one pair per batch",
        quarter=True,
        border="zeros",
    ),
    "flc_cifar": Preset(
        source="Grabinski 2022, CIFAR: crops of 32 out of 36 px by bilinear enlargement, one pair per batch",
        border="enlarged",
    ),
    "one_px": Preset(
        source="after Shifman & Weiss 2024: crops of 7/8 of the image, at most one px apart each way, so "
        "nothing enters; a distinct pair per image",
        low=0,
        high=1,
        border="crop",
        per_image=True,
        distinct=True,
        least_size=16,
    ),
}


def paired_predictions(model: nn.Module, images: Tensor, preset: Preset, seed: int) -> tuple[Tensor, Tensor]:
    """Top-1 classes (N,) of two shifted views of every image (N, C, H, W), drawn by ``preset``."""
    generator = torch.Generator().manual_seed(seed)
    first, second = preset.draw(len(images), size_of(images), generator)
    return predictions(model, images, first, preset.view), predictions(model, images, second, preset.view)


def refusal(model: nn.Module, preset: Preset, images: Tensor) -> str | None:
    """Why ``preset`` cannot measure ``model`` on such images; None if it can, NoLogitsError if none can."""
    if reason := preset.refusal(size_of(images)):
        return reason
    if preset.border == "crop":
        view = preset.view(images[:1], torch.zeros(1, 2, dtype=torch.int64))
        try:
            logits(model, view)
        except NoLogitsError:
            raise
        except (RuntimeError, ValueError):
            return f"the model does not accept crops of {view.shape[-2]}x{view.shape[-1]}"
    return None


@dataclass(frozen=True)
class Agreement:
    """Shares over the pairs of views of each image, (N,) in float64; of each pixel for dense predictions."""

    same: Tensor  # Pairs with the same top-1 class
    distinct: Tensor  # The same, of pairs of two different shifts
    correct: Tensor  # Views that are classified correctly
    both: Tensor  # Pairs in which both are
    shifts: int
    exact: bool  # All pairs of shifts were counted
    labelled: bool = True  # Every prediction had a label; otherwise none is correct

    @property
    def given_correct(self) -> float | None:
        """Pairs with both views correct, divided by correct first views; None if there are none."""
        correct = self.correct.sum().item()
        return self.both.sum().item() / correct if correct else None


def over_all(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    preset: Preset,
    seen: Seen | None = None,
    *,
    dense: bool = False,
) -> Agreement:
    """All pairs of shifts of ``preset``: the expectation of its draws, also of pairs shared by a batch.

    With ``dense`` the model may also predict each pixel.
    """
    counts = torch.zeros(0, 0, dtype=torch.float64)
    every = preset.shifts(size_of(images)).tolist()
    for down, across in every:
        key = (preset.border, down, across)
        if seen and key in seen:
            top = seen[key]
        else:
            view = None if preset.border == "circular" else preset.view
            top = predictions(model, images, torch.tensor((down, across)), view, dense=dense)
            if seen is not None:
                seen[key] = top
        more = max(0, int(top.max()) + 1 - counts.shape[1])
        counts = F.pad(counts, (0, more, 0, top.numel() - len(counts)))
        counts[torch.arange(len(counts)), top.flatten()] += 1
    shifts, (answers, classes) = len(every), counts.shape
    labelled = labels.shape == top.shape
    # A class that was never predicted has no column.
    own = labels.cpu().flatten() if labelled else torch.full((answers,), classes)
    own = torch.where((own < 0) | (own > classes), classes, own)
    right = F.pad(counts, (0, 1)).gather(1, own[:, None])[:, 0]
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
        labelled=labelled,
    )


def over_drawn(model: nn.Module, images: Tensor, labels: Tensor, preset: Preset, seed: int) -> Agreement:
    """``PAIRS`` pairs drawn for each image separately, so the spread over images includes that of draws."""
    found = {}
    own = replace(preset, per_image=True)
    for name, drawn in (("own", own), ("distinct", replace(own, distinct=True))):
        pairs = [paired_predictions(model, images, drawn, seed + 7919 * k) for k in range(PAIRS)]
        found[name] = torch.stack([torch.stack(pair) for pair in pairs])
    same = {name: (tops[:, 0] == tops[:, 1]).double().mean(0) for name, tops in found.items()}
    right = found["own"] == labels.cpu()
    return Agreement(
        same=same["own"],
        distinct=same["distinct"],
        correct=right.double().mean((0, 1)),
        both=right.all(1).double().mean(0),
        shifts=len(preset.shifts(size_of(images))),
        exact=False,
    )


def interval(shares: Tensor) -> tuple[float, float]:
    """The 95 % interval of the mean of (N,) shares, within 0..1: normal approximation.

    Where all are 0, or all are 1, that of Clopper and Pearson, since there the normal one has no width.
    """
    mean = shares.mean().item()
    if len(shares) > 1 and (shares == mean).all() and mean in (0, 1):
        margin = 1 - 0.025 ** (1 / len(shares))
        return (0.0, margin) if mean == 0 else (1 - margin, 1.0)
    half = NORMAL_95 * shares.std().item() / math.sqrt(len(shares)) if len(shares) > 1 else math.inf
    return max(mean - half, 0.0), min(mean + half, 1.0)


def by_presets(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    presets: Mapping[str, Preset],
    seed: int,
    seen: Seen | None = None,
) -> dict[str, Any]:
    """Results under the named presets: exact for few shifts, else over pairs drawn for every image.

    ``seen``: predictions of these images, used and added to.
    """
    reasons = {name: refusal(model, preset, images) for name, preset in presets.items()}
    fitting = {name: preset for name, preset in presets.items() if reasons[name] is None}
    seen = {} if seen is None else seen
    found = {
        name: over_all(model, images, labels, preset, seen)
        if len(preset.shifts(size_of(images))) <= EXACT
        else over_drawn(model, images, labels, preset, seed)
        for name, preset in fitting.items()
    }
    result: dict[str, Any] = {
        "consistency": {name: one.same.mean().item() for name, one in found.items()},
        "consistency_distinct": {name: one.distinct.mean().item() for name, one in found.items()},
    }
    if found:
        result["consistency_given_correct"] = next(iter(found.values())).given_correct
    result["presets"] = {name: asdict(fitting[name]) | _facts(one) for name, one in found.items()}
    if skipped := {name: reason for name, reason in reasons.items() if reason}:
        result["skipped"] = skipped
    return result


def _facts(one: Agreement) -> dict[str, Any]:
    low, high = interval(one.same)
    return {
        "given_correct": one.given_correct,
        "accuracy": one.correct.mean().item(),
        "consistency_low": low,
        "consistency_high": high,
        "shifts": one.shifts,
        "exact": one.exact,
    }
