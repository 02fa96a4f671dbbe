"""The effect of a shift inside a model: how far it moves the output of each stage."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from cnnpool.probe.answers import cross
from cnnpool.probe.base import captured, device_of, examined
from cnnpool.probe.shift import shift


def relative_change(
    model: nn.Module, stages: Mapping[str, nn.Module], images: Tensor, max_shift_px: int
) -> dict[str, dict[str, float]]:
    """How far a d-pixel shift moves each stage's output, d = 1..max_shift_px, by stage and distance.

    The mean over images and the four directions of ||phi(S_d x) - phi(x)||, divided by the mean of
    ||phi(x) - phi(x')|| over pairs of different images (each with the next): 0 is invariant, 1 is as far as
    another image.
    """
    with examined(model), captured(stages) as seen, torch.no_grad():

        def outputs(batch: Tensor) -> dict[str, Tensor]:
            model(batch.to(device_of(model)))
            return {stage: value.flatten(1).double() for stage, value in seen.items()}

        still = outputs(images)
        apart = {stage: _distance(value, value.roll(1, 0)) for stage, value in still.items()}
        changes: dict[str, dict[str, float]] = {stage: {} for stage in still}
        for d in range(1, max_shift_px + 1):
            moved = [outputs(shift(images, *way)) for way in cross(d)]
            for stage, value in still.items():
                mean = sum(_distance(value, m[stage]) for m in moved) / len(moved)
                changes[stage][str(d)] = mean / apart[stage] if apart[stage] else 0.0
    return changes


def unchanged_outputs(
    model: nn.Module, stages: Mapping[str, nn.Module], images: Tensor, max_shift_px: int
) -> dict[str, dict[str, float]]:
    """Outputs of each operator that no d-pixel shift of its own input changes, by stage and distance.

    The share of outputs that are the same to the last bit after the stage's input map was moved circularly
    by d of its pixels, over images and the four directions: the literal "invariant to small shifts".
    """
    with examined(model), captured(stages, inputs=True) as maps, torch.no_grad():
        model(images.to(device_of(model)))
        return {
            stage: {str(d): unchanged_share(stages[stage], x, cross(d)) for d in range(1, max_shift_px + 1)}
            for stage, x in dict(maps).items()
        }


def unchanged_share(operator: nn.Module, maps: Tensor, ways: Iterable[tuple[int, int]]) -> float:
    """Outputs that are the same to the last bit after ``maps`` (N, C, H, W) moved, mean over ``ways``."""
    still = operator(maps)
    same = [(operator(shift(maps, *way)) == still).double().mean() for way in ways]
    return torch.stack(same).mean().item()


def _distance(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm(dim=1).mean())
