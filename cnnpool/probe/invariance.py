"""Shift invariance: the effect of a shift of the image on each stage and on the prediction."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from cnnpool.as_found import examined
from cnnpool.bounds import Count, CountOrZero, Seed
from cnnpool.probe.base import (
    AtLeastTwo,
    Batch,
    Pixels,
    PixelsOrZero,
    Probe,
    Result,
    Stages,
    maps_of,
    paddings,
)
from cnnpool.probe.consistency import EXACT, PAIRS, PRESETS, Preset, PresetName, Seen, by_presets
from cnnpool.probe.shift import cross, mean_over, parts, predictions, relative_to, shift, square, with_next
from cnnpool.probe.windows import maximum_sampling
from cnnpool.quantity import Quantity, deviation, fraction, score

BOTH_CORRECT = (
    "Pairs of shifted views of an image that are both classified correctly, divided by the pairs whose first "
    "view is"
)


def of_preset(name: str, preset: Preset) -> Iterator[Quantity]:
    """The quantities of one protocol."""
    pairs = "Pairs of shifted views of an image with the same top-1 class, divided by"
    over = (
        f"The mean over all pairs of shifts that the protocol may draw, where it has at most {EXACT} shifts, "
        f"else over {PAIRS} pairs an image. Protocol: {preset.source}."
    )
    text = f"{pairs} all pairs. {over}"
    yield score(f"consistency.{name}", f"consistency ({name})", text, shown="compare", headline=True)
    in_files = partial(score, shown="file")
    title, text = (
        f"consistency of distinct pairs ({name})",
        f"{pairs} all pairs of two different shifts. {over}",
    )
    yield in_files(f"consistency_distinct.{name}", title, text)
    text = f"{BOTH_CORRECT}. Protocol: {preset.source}."
    yield in_files(f"presets.{name}.given_correct", f"consistency given correct ({name})", text)
    text = f"Correct predictions over both views of all pairs, divided by all. Protocol: {preset.source}."
    yield in_files(f"presets.{name}.accuracy", f"accuracy of shifted views ({name})", text)
    for end, side in (("low", "lower"), ("high", "upper")):
        text = f"{side.capitalize()} end of the 95 % interval of consistency ({name}) over images, and over"
        title = f"{side} end of consistency ({name})"
        yield in_files(f"presets.{name}.consistency_{end}", title, f"{text} draws where it is not exact.")


@dataclass(kw_only=True)
class ShiftInvariance(Probe):
    """Consistency and accuracy of the classification under shifts, and the change of every stage.

    It also reports how often a stage outputs the maximum of a window, by ``maximum_sampling``.

    Args:
        presets: protocols of ``cnnpool.probe.consistency.PRESETS``, by name; the first gives
            ``consistency_given_correct``. Presets that do not fit the images are listed under ``skipped``.
        samples: images for the presets, >= 1.
        shift_samples: images for accuracy under shifts, >= 1.
        map_samples: images for ``accuracy_over_shifts``, the accuracy under every circular shift of up to
            max_shift_px pixels each way, row by row with zero shift in the centre, >= 0; 0: none.
        stage_samples: images for the change and the maximum-sampling bias of the stages, >= 2.
        max_shift_px: largest shift of the stage measures and of accuracy against shift, in pixels, >= 1;
            beyond the shifts of ``presets`` (3 by default) each pixel takes forward passes of its own.
        worst_px: largest circular shift each way for worst- and mean-shift accuracy, in pixels, >= 0.
        seed: seed of the drawn shifts.
    """

    section = "invariance"
    tried = False
    quantities = (
        *(quantity for name, preset in PRESETS.items() for quantity in of_preset(name, preset)),
        score(
            "consistency_given_correct",
            "consistency given correct",
            f"{BOTH_CORRECT}, by the first preset.",
            shown="compare",
        ),
        score(
            "worst_shift_accuracy",
            "worst-shift accuracy",
            "Images classified correctly under every circular shift of up to <worst_px> px each way, "
            "divided by all images.",
            shown="compare",
        ),
        score(
            "mean_shift_accuracy",
            "mean-shift accuracy",
            "Correct predictions over all circular shifts of up to <worst_px> px each way and all images, "
            "divided by all.",
        ),
        score(
            "accuracy_by_shift.<px>",
            "accuracy at a shift of <px> px",
            "Images classified correctly when shifted circularly by so many pixels, the mean over the four "
            "directions, divided by all images.",
            shown="file",
        ),
        deviation(
            "stages.<stage>.relative_change.<px>",
            "relative change at <px> px",
            "Distance that a stage's output moves when the image shifts circularly by so many pixels, "
            "divided by the distance between outputs of different images: 0 is invariant, 1 as far as "
            "another image.",
            shown="compare",
        ),
        score(
            "stages.<stage>.unchanged_outputs.<px>",
            "unchanged outputs at <px> px",
            "Outputs of a stage's operator that are the same to the last bit after its own input shifted "
            "circularly by so many of its pixels, divided by all outputs.",
        ),
        fraction(
            "stages.<stage>.maximum_sampling_bias",
            "maximum-sampling bias",
            "Outputs of a stage that are the maximum of their window to the last bit, divided by all outputs "
            "whose window has two different values at least (after Saha and Gokhale 2024). The window is the "
            "operator's own, or else its block of stride x stride inputs; operators that change a constant "
            "map, such as convolutions, have no such number.",
        ),
        fraction(
            "stages.<stage>.constant_windows",
            "constant windows",
            "Windows whose values are all equal, which maximum-sampling bias leaves out, divided by all "
            "windows.",
            shown="file",
        ),
    )

    presets: tuple[PresetName, ...] = ("distinct", "aps_cifar")
    samples: Count = 512
    shift_samples: Count = 512
    map_samples: CountOrZero = 128
    stage_samples: AtLeastTwo = 64
    max_shift_px: Pixels = 3
    worst_px: PixelsOrZero = 1
    seed: Seed = 0

    def read(self, model: nn.Module, stages: Stages, batch: Batch) -> Result:
        images, labels, *_ = batch
        views = images[: self.samples], labels[: self.samples]
        some = images[: self.shift_samples], labels[: self.shift_samples]
        mapped = images[: self.map_samples], labels[: self.map_samples]
        few = images[: self.stage_samples]
        presets: dict[str, Preset] = {name: PRESETS[name] for name in self.presets}
        changes = relative_change(model, stages, few, self.max_shift_px)
        unchanged = unchanged_outputs(model, stages, few, self.max_shift_px)
        maxima = maximum_sampling(model, stages, few)
        seen: Seen = {}
        found = by_presets(model, *views, presets, self.seed, seen)
        for one in found["presets"].values():
            # With each protocol, since circular shifts of zero-padded networks measure something else.
            one["model_padding"] = paddings(model)
        found |= accuracy_of_shifts(model, *some, self.worst_px, self.max_shift_px, seen)
        if self.map_samples:
            found["accuracy_over_shifts"] = accuracy_map(model, *mapped, self.max_shift_px, seen).tolist()
        return {
            **found,
            "worst_px": self.worst_px,
            "samples": len(views[0]),
            "shift_samples": len(some[0]),
            "map_samples": len(mapped[0]),
            "stage_samples": len(few),
            "seed": self.seed,
            "model_padding": paddings(model),
            "stages": {
                stage: {"relative_change": change, "unchanged_outputs": unchanged[stage], **maxima[stage]}
                for stage, change in changes.items()
            },
        }


def accuracy_of_shifts(
    model: nn.Module,
    images: Tensor,
    labels: Tensor,
    worst_px: int,
    max_shift_px: int,
    seen: Seen | None = None,
) -> dict[str, float | dict[str, float]]:
    """Worst- and mean-shift accuracy, and accuracy by shift, of images (N, C, H, W); see the quantities.

    ``seen``: predictions of these images, and perhaps of more after them, used and added to.
    """
    seen = {} if seen is None else seen
    grid, crosses = square(worst_px), {d: cross(d) for d in range(max_shift_px + 1)}
    wanted = dict.fromkeys([*grid, *(way for ways in crosses.values() for way in ways)])
    right = {way: right_answers(model, images, labels, way, seen) for way in wanted}
    over_grid = torch.stack([right[way] for way in grid])
    return {
        "worst_shift_accuracy": over_grid.all(0).double().mean().item(),
        "mean_shift_accuracy": over_grid.double().mean().item(),
        "accuracy_by_shift": {
            str(d): torch.stack([right[way] for way in ways]).double().mean().item()
            for d, ways in crosses.items()
        },
    }


def accuracy_map(
    model: nn.Module, images: Tensor, labels: Tensor, radius: int, seen: Seen | None = None
) -> Tensor:
    """Accuracy over all circular shifts of up to ``radius`` pixels: (2r+1, 2r+1), no shift in the centre.

    ``seen`` as for ``accuracy_of_shifts``.
    """
    seen = {} if seen is None else seen
    cells = [right_answers(model, images, labels, way, seen).double().mean() for way in square(radius)]
    return torch.stack(cells).reshape(2 * radius + 1, 2 * radius + 1)


def right_answers(
    model: nn.Module, images: Tensor, labels: Tensor, way: tuple[int, int], seen: Seen
) -> Tensor:
    """Which images (N,) are classified correctly when all are shifted circularly by ``way``: down, right."""
    top = seen.get(("circular", *way))
    if top is None or len(top) < len(images):
        top = seen["circular", *way] = predictions(model, images, torch.tensor(way))
    return top[: len(images)] == labels.cpu()


def relative_change(
    model: nn.Module, stages: Stages, images: Tensor, max_shift_px: int
) -> dict[str, dict[str, float]]:
    """How far a d-pixel shift moves each stage's output, d = 1..max_shift_px, by stage and distance.

    The mean over images and the four directions of ||phi(S_d x) - phi(x)||, divided by the mean of
    ||phi(x) - phi(x')|| over pairs of different images (each with the next); NaN if all are alike.
    """
    # By stage and distance, 0 from the next image.
    measured: list[tuple[int, dict[tuple[str, int], float]]] = []
    for some, still, following in with_next(model, stages, images):
        found = {(stage, 0): value for stage, value in _distances(still, following).items()}
        for d in range(1, max_shift_px + 1):
            moved = [_distances(still, maps_of(model, stages, shift(some, *way))) for way in cross(d)]
            found |= {(stage, d): sum(m[stage] for m in moved) / len(moved) for stage in still}
        measured.append((len(some), found))
    means = mean_over(measured)
    return {
        stage: {str(d): relative_to(apart, means[stage, d]) for d in range(1, max_shift_px + 1)}
        for (stage, distance), apart in means.items()
        if distance == 0
    }


def unchanged_outputs(
    model: nn.Module, stages: Stages, images: Tensor, max_shift_px: int
) -> dict[str, dict[str, float]]:
    """By stage and d, outputs bit-identical after the stage's own input moves by d pixels, divided by all."""
    found = []
    with examined(model), torch.no_grad():
        for (some,) in parts(images):
            shares = {
                (stage, d): unchanged_share(stages[stage], x, cross(d))
                for stage, x in maps_of(model, stages, some, inputs=True).items()
                for d in range(1, max_shift_px + 1)
            }
            found.append((len(some), shares))
    result: dict[str, dict[str, float]] = defaultdict(dict)
    for (stage, d), mean in mean_over(found).items():
        result[stage][str(d)] = mean
    return result


def unchanged_share(operator: nn.Module, maps: Tensor, ways: Iterable[tuple[int, int]]) -> float:
    """Share of outputs bit-identical after ``maps`` (N, C, H, W) are moved, mean over ``ways``."""
    still = operator(maps)
    same = [(operator(shift(maps, *way)) == still).double().mean() for way in ways]
    return torch.stack(same).mean().item()


def _distances(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> dict[str, float]:
    """Mean distance of two maps of each image, by stage."""
    return {
        stage: float((x.double() - b[stage].double()).flatten(1).norm(dim=1).mean()) for stage, x in a.items()
    }
