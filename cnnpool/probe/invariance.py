"""Shift invariance: what a shift of the image does to each stage and to the answer."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from cnnpool.probe.base import Result, captured, device_of, examined
from cnnpool.probe.shift import PROTOCOLS, PresetName, Protocol, shift

BATCH = 256


class ShiftInvariance:
    """Relative change of every stage under small shifts, and consistency of the classification.

    Args:
        presets: protocols of ``cnnpool.probe.shift.PROTOCOLS``, by name.
        samples: images for the classification measures, >= 1.
        stage_samples: images for the relative change of the stages, >= 2.
        max_shift_px: largest shift of the stage measure, in pixels, >= 1.
        worst_px: the worst-shift accuracy tries every shift up to so many pixels each way, >= 0.
        seed: of the drawn shifts.
        every_epochs: read after every so many epochs; 0: only at the end.

    Raises:
        ValueError: if an option is out of range.
    """

    section = "invariance"

    def __init__(
        self,
        *,
        presets: tuple[PresetName, ...] = ("distinct", "aps_cifar"),
        samples: int = 1024,
        stage_samples: int = 64,
        max_shift_px: int = 4,
        worst_px: int = 1,
        seed: int = 0,
        every_epochs: int = 0,
    ):
        if samples < 1 or stage_samples < 2 or max_shift_px < 1 or worst_px < 0 or every_epochs < 0:
            raise ValueError(
                "invariance probe: samples and max_shift_px must be >= 1, stage_samples >= 2, worst_px and "
                f"every_epochs >= 0, got samples={samples}, stage_samples={stage_samples}, "
                f"max_shift_px={max_shift_px}, worst_px={worst_px}, every_epochs={every_epochs}"
            )
        self.presets = presets
        self.samples = samples
        self.stage_samples = stage_samples
        self.max_shift_px = max_shift_px
        self.worst_px = worst_px
        self.seed = seed
        self.every_epochs = every_epochs

    def measure(
        self, model: nn.Module, stages: Mapping[str, nn.Module], images: Tensor, labels: Tensor
    ) -> Result:
        few = images[: self.stage_samples]
        images, labels = images[: self.samples], labels[: self.samples]
        pairs = {name: paired_answers(model, images, PROTOCOLS[name], self.seed) for name in self.presets}
        result: Result = {
            "consistency": {name: consistency(*answers) for name, answers in pairs.items()},
            "worst_shift_accuracy": worst_shift_accuracy(model, images, labels, self.worst_px),
            "worst_px": self.worst_px,
            "samples": len(images),
            "seed": self.seed,
            "stages": {
                stage: {"relative_change": changes}
                for stage, changes in relative_change(model, stages, few, self.max_shift_px).items()
            },
        }
        if pairs:
            first, second = next(iter(pairs.values()))
            result["consistency_given_correct"] = consistency_given_correct(first, second, labels)
        return result


def paired_answers(model: nn.Module, images: Tensor, protocol: Protocol, seed: int) -> tuple[Tensor, Tensor]:
    """Top-1 classes (N,) of two shifted views of every image (N, C, H, W), drawn by ``protocol``."""
    generator = torch.Generator().manual_seed(seed)
    shifts = protocol.draw(len(images), tuple(images.shape[-2:]), generator)
    return tuple(answers(model, images, s, circular=protocol.circular) for s in shifts)


def answers(model: nn.Module, images: Tensor, shifts: Tensor, *, circular: bool = True) -> Tensor:
    """Top-1 classes (N,) of images (N, C, H, W), each shifted by its row of ``shifts`` (N, 2) or (2,)."""
    shifts = shifts.expand(len(images), 2)
    with examined(model), torch.no_grad():
        parts = [
            model(shift(part, s[:, 0], s[:, 1], circular=circular).to(device_of(model))).argmax(1).cpu()
            for part, s in zip(images.split(BATCH), shifts.split(BATCH), strict=True)
        ]
    return torch.cat(parts)


def consistency(first: Tensor, second: Tensor) -> float:
    """Zhang 2019: pairs of views with the same top-1 class, divided by all pairs."""
    return (first == second).double().mean().item()


def consistency_given_correct(first: Tensor, second: Tensor, labels: Tensor) -> float | None:
    """Pairs with the same class, divided by the pairs whose first view is classified correctly."""
    correct = first == labels.to(first.device)
    return (first == second)[correct].double().mean().item() if correct.any() else None


def worst_shift_accuracy(model: nn.Module, images: Tensor, labels: Tensor, radius: int) -> float:
    """Images right under every circular shift of up to ``radius`` pixels each way, divided by all."""
    right = torch.ones(len(images), dtype=torch.bool)
    for down, across in _square(radius):
        right &= answers(model, images, torch.tensor((down, across))) == labels.cpu()
    return right.double().mean().item()


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
            moved = [outputs(shift(images, *way)) for way in ((d, 0), (-d, 0), (0, d), (0, -d))]
            for stage, value in still.items():
                mean = sum(_distance(value, m[stage]) for m in moved) / len(moved)
                changes[stage][str(d)] = mean / apart[stage] if apart[stage] else 0.0
    return changes


def change_map(model: nn.Module, images: Tensor, labels: Tensor, radius: int) -> Tensor:
    """Accuracy over all circular shifts of up to ``radius`` pixels: (2r+1, 2r+1), centre unshifted, 0..1."""
    cells = [
        (answers(model, images, torch.tensor(s)) == labels.cpu()).double().mean() for s in _square(radius)
    ]
    return torch.stack(cells).reshape(2 * radius + 1, 2 * radius + 1)


def _square(radius: int) -> Iterator[tuple[int, int]]:
    span = range(-radius, radius + 1)
    return ((down, right) for down in span for right in span)


def _distance(a: Tensor, b: Tensor) -> float:
    return (a - b).norm(dim=1).mean().item()
