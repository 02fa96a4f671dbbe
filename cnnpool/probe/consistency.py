"""Consistency: how often two shifted views of an image get the same prediction (Zhang 2019)."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from cnnpool.probe.answers import answers, logits
from cnnpool.probe.base import size_of
from cnnpool.probe.presets import Preset


def consistency(first: Tensor, second: Tensor) -> float:
    """Zhang 2019: pairs of views with the same top-1 class, divided by all pairs.

    Example:
        >>> import torch
        >>> from cnnpool.probe.consistency import consistency
        >>> consistency(torch.tensor([1, 2, 3, 4]), torch.tensor([1, 2, 3, 5]))
        0.75
    """
    return (first == second).double().mean().item()


def consistency_given_correct(first: Tensor, second: Tensor, labels: Tensor) -> float | None:
    """Pairs with the same class, divided by the pairs whose first view is classified correctly.

    None if no first view is.

    Example:
        >>> import torch
        >>> from cnnpool.probe.consistency import consistency_given_correct
        >>> first, second, labels = torch.tensor([1, 2, 3]), torch.tensor([1, 0, 3]), torch.tensor([1, 2, 0])
        >>> consistency_given_correct(first, second, labels)
        0.5
    """
    correct = first == labels.to(first.device)
    return (first == second)[correct].double().mean().item() if correct.any() else None


def paired_answers(
    model: nn.Module, images: Tensor, preset: Preset, seed: int, black: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Top-1 classes (N,) of two shifted views of every image (N, C, H, W), drawn by ``preset``."""
    generator = torch.Generator().manual_seed(seed)
    first, second = (
        answers(model, images, shifts, lambda x, by: preset.view(x, by, black))
        for shifts in preset.draw(len(images), size_of(images), generator)
    )
    return first, second


def refusal(model: nn.Module, preset: Preset, images: Tensor) -> str | None:
    """Why ``model`` cannot be measured by ``preset`` on such images; None if it can."""
    if reason := preset.refusal(size_of(images)):
        return reason
    if preset.border == "crop":
        view = preset.view(images[:1], torch.zeros(1, 2, dtype=torch.int64))
        try:
            logits(model, view)
        except (RuntimeError, ValueError):
            return f"the model does not take crops of {view.shape[-2]}x{view.shape[-1]}"
    return None


def by_preset(
    model: nn.Module, images: Tensor, labels: Tensor, preset: Preset, seed: int, black: Tensor | None = None
) -> dict[str, float | None]:
    """Results under one preset: ``consistency``, ``given_correct``, and ``accuracy`` of both views."""
    first, second = paired_answers(model, images, preset, seed, black)
    right = torch.stack((first, second)) == labels.cpu()
    return {
        "consistency": consistency(first, second),
        "given_correct": consistency_given_correct(first, second, labels.cpu()),
        "accuracy": right.double().mean().item(),
    }


def by_presets(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    presets: Mapping[str, Preset],
    seed: int,
    black: Tensor | None = None,
    *,
    distinct: bool = False,
) -> dict[str, Any]:
    """Results under the named presets; with ``distinct`` also with a distinct pair for every image.

    Returns:
        ``consistency``, ``consistency_distinct`` by name; ``consistency_given_correct`` of the first; under
        ``presets`` what each preset is and gave; under ``skipped`` why one was not measured.
    """
    reasons = {name: refusal(model, preset, images) for name, preset in presets.items()}
    fitting = {name: preset for name, preset in presets.items() if reasons[name] is None}
    found = {name: by_preset(model, images, labels, p, seed, black) for name, p in fitting.items()}
    result: dict[str, Any] = {"consistency": {name: one["consistency"] for name, one in found.items()}}
    if distinct:
        paired = {name: preset.paired_per_image() for name, preset in fitting.items()}
        result["consistency_distinct"] = {
            name: consistency(*paired_answers(model, images, preset, seed, black))
            for name, preset in paired.items()
        }
    if found:
        result["consistency_given_correct"] = next(iter(found.values()))["given_correct"]
    result["presets"] = {
        name: fitting[name].facts() | {key: value for key, value in one.items() if key != "consistency"}
        for name, one in found.items()
    }
    if skipped := {name: reason for name, reason in reasons.items() if reason}:
        result["skipped"] = skipped
    return result
