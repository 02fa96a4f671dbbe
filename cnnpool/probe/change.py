"""The effect of a shift inside a model: how far it moves the output of each stage."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from cnnpool.probe.answers import cross
from cnnpool.probe.base import captured, device_of, examined
from cnnpool.probe.parts import mean_over, parts
from cnnpool.probe.shift import shift


def relative_change(
    model: nn.Module, stages: Mapping[str, nn.Module], images: Tensor, max_shift_px: int
) -> dict[str, dict[str, float]]:
    """How far a d-pixel shift moves each stage's output, d = 1..max_shift_px, by stage and distance.

    The mean over images and the four directions of ||phi(S_d x) - phi(x)||, divided by the mean of
    ||phi(x) - phi(x')|| over pairs of different images (each with the next): 0 is invariant, 1 is as far as
    another image.
    """
    # By distance (0: from the next image) and stage, the mean over each part of the images.
    found: dict[int, dict[str, list[float]]] = {d: defaultdict(list) for d in range(max_shift_px + 1)}
    counts = []
    with examined(model), captured(stages) as seen, torch.no_grad():

        def outputs(batch: Tensor) -> dict[str, Tensor]:
            model(batch.to(device_of(model)))
            return {stage: value.flatten(1).double() for stage, value in seen.items()}

        for some, others in parts(images, images.roll(1, 0)):
            counts.append(len(some))
            still = outputs(some)
            whole = len(some) == len(images)
            rolled = {stage: value.roll(1, 0) for stage, value in still.items()} if whole else outputs(others)
            for stage, distance in _distances(still, rolled).items():
                found[0][stage].append(distance)
            for d in range(1, max_shift_px + 1):
                moved = [_distances(still, outputs(shift(some, *way))) for way in cross(d)]
                for stage in still:
                    found[d][stage].append(sum(m[stage] for m in moved) / len(moved))
    apart = {stage: mean_over(values, counts) for stage, values in found.pop(0).items()}
    return {
        stage: {
            str(d): mean_over(by_stage[stage], counts) / apart[stage] if apart[stage] else 0.0
            for d, by_stage in found.items()
        }
        for stage in apart
    }


def unchanged_outputs(
    model: nn.Module, stages: Mapping[str, nn.Module], images: Tensor, max_shift_px: int
) -> dict[str, dict[str, float]]:
    """Outputs of each operator that no d-pixel shift of its own input changes, by stage and distance.

    The share of outputs that are the same to the last bit after the stage's input map was moved circularly
    by d of its pixels, over images and the four directions: the literal "invariant to small shifts".
    """
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    counts = []
    with examined(model), captured(stages, inputs=True) as maps, torch.no_grad():
        for (some,) in parts(images):
            counts.append(len(some))
            model(some.to(device_of(model)))
            for stage, x in dict(maps).items():
                for d in range(1, max_shift_px + 1):
                    found[stage][str(d)].append(unchanged_share(stages[stage], x, cross(d)))
    return {
        stage: {d: mean_over(values, counts) for d, values in by_distance.items()}
        for stage, by_distance in found.items()
    }


def unchanged_share(operator: nn.Module, maps: Tensor, ways: Iterable[tuple[int, int]]) -> float:
    """Outputs that are the same to the last bit after ``maps`` (N, C, H, W) moved, mean over ``ways``."""
    still = operator(maps)
    same = [(operator(shift(maps, *way)) == still).double().mean() for way in ways]
    return torch.stack(same).mean().item()


def _distances(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> dict[str, float]:
    """By stage the mean distance of two values (N, D) of each image."""
    return {stage: float((value - b[stage]).norm(dim=1).mean()) for stage, value in a.items()}
