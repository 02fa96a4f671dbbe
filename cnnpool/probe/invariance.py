"""Shift invariance: the effect of a shift of the image on each stage and on the prediction."""

from dataclasses import dataclass

from torch import nn

from cnnpool.bounds import Count, CountOrZero, Seed
from cnnpool.probe.accuracy import accuracy_map, accuracy_of_shifts
from cnnpool.probe.base import AtLeastTwo, Batch, Pixels, PixelsOrZero, Probe, Result, Stages, paddings
from cnnpool.probe.change import relative_change, unchanged_outputs
from cnnpool.probe.consistency import EXACT, PAIRS, by_presets
from cnnpool.probe.maximum_sampling import maximum_sampling
from cnnpool.probe.presets import PRESETS, Preset, PresetName
from cnnpool.quantity import Quantity, fraction, ratio
from cnnpool.registry import checked


def of_preset(name: str, preset: Preset) -> tuple[Quantity, ...]:
    """The quantities of one protocol."""
    pairs = "Pairs of shifted views of an image with the same top-1 class, divided by"
    over = (
        f"The mean over all pairs of shifts that the protocol may draw, where it has at most {EXACT} shifts, "
        f"else over {PAIRS} pairs an image"
    )
    return (
        fraction(
            f"consistency.{name}",
            f"consistency ({name})",
            f"{pairs} all pairs. {over}. Protocol: {preset.source}.",
            better="higher",
            shown="compare",
            headline=True,
        ),
        fraction(
            f"consistency_distinct.{name}",
            f"consistency of distinct pairs ({name})",
            f"{pairs} all pairs of two different shifts. {over}. Protocol: {preset.source}.",
            better="higher",
            shown="file",
        ),
        fraction(
            f"presets.{name}.given_correct",
            f"consistency given correct ({name})",
            f"{pairs} the pairs whose first view is classified correctly. Protocol: {preset.source}.",
            better="higher",
            shown="file",
        ),
        fraction(
            f"presets.{name}.accuracy",
            f"accuracy of shifted views ({name})",
            f"Correct predictions over both views of all pairs, divided by all. Protocol: {preset.source}.",
            better="higher",
            shown="file",
        ),
        end_of_interval(name, "low", "lower"),
        end_of_interval(name, "high", "upper"),
    )


def end_of_interval(name: str, key: str, side: str) -> Quantity:
    """The lower or upper end of the interval of one protocol's consistency."""
    return fraction(
        f"presets.{name}.consistency_{key}",
        f"{side} end of consistency ({name})",
        f"{side.capitalize()} end of the 95 % interval of consistency ({name}) over images, and over draws "
        "where it is not exact.",
        better="higher",
        shown="file",
    )


@checked
@dataclass(kw_only=True)
class ShiftInvariance(Probe):
    """Consistency and accuracy of the classification under shifts, and the change of every stage.

    Beside them how often a stage passes on the maximum of a window, by ``maximum_sampling``.

    Args:
        presets: protocols of ``cnnpool.probe.presets.PRESETS``, by name; the first gives
            ``consistency_given_correct``. One that does not fit the images is named under ``skipped``.
        samples: images for the presets, >= 1.
        shift_samples: images for accuracy under shifts, >= 1.
        map_samples: images for ``accuracy_over_shifts``, the accuracy under every circular shift of up to
            max_shift_px pixels each way, row by row with no shift in the centre, >= 0; 0: none.
        stage_samples: images for the change and the maximum-sampling bias of the stages, >= 2.
        max_shift_px: largest shift of the stage measures and of accuracy against shift, in pixels, >= 1.
        worst_px: worst- and mean-shift accuracy try every circular shift up to so many pixels each way, >= 0.
        seed: of the drawn shifts.
        every_epochs: read after every so many epochs; 0: only at the end.

    Raises:
        ValueError: if an option is out of range.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from cnnpool.pool import MaxPool2d
        >>> from cnnpool.probe import ShiftInvariance
        >>> model = nn.Sequential(MaxPool2d(1), nn.Flatten(), nn.Linear(16, 10))
        >>> images, labels = torch.rand(4, 1, 8, 8), torch.zeros(4, dtype=torch.int64)
        >>> found = ShiftInvariance().measure(model, {"s1": model[0]}, images, labels)
        >>> sorted(found["consistency"])
        ['aps_cifar', 'distinct']
    """

    section = "invariance"
    tried = False
    quantities = (
        *(quantity for name, preset in PRESETS.items() for quantity in of_preset(name, preset)),
        fraction(
            "consistency_given_correct",
            "consistency given correct",
            "Pairs of shifted views with the same top-1 class, divided by the pairs whose first view is "
            "classified correctly, by the first preset.",
            better="higher",
            shown="compare",
        ),
        fraction(
            "worst_shift_accuracy",
            "worst-shift accuracy",
            "Images classified correctly under every circular shift of up to worst_px pixels each way, "
            "divided by all images.",
            better="higher",
            shown="compare",
        ),
        fraction(
            "mean_shift_accuracy",
            "mean-shift accuracy",
            "Correct predictions over all circular shifts of up to worst_px pixels each way and all images, "
            "divided by all.",
            better="higher",
        ),
        fraction(
            "accuracy_by_shift.<px>",
            "accuracy at a shift of <px> px",
            "Images classified correctly when shifted circularly by so many pixels, the mean over the four "
            "directions, divided by all images.",
            better="higher",
            shown="file",
        ),
        ratio(
            "stages.<stage>.relative_change.<px>",
            "relative change at <px> px",
            "Distance that a stage's output moves when the image shifts circularly by so many pixels, "
            "divided by the distance between outputs of different images: 0 is invariant, 1 as "
            "far as another image.",
            better="lower",
            shown="compare",
        ),
        fraction(
            "stages.<stage>.unchanged_outputs.<px>",
            "unchanged outputs at <px> px",
            "Outputs of a stage's operator that are the same to the last bit after its own input shifted "
            "circularly by so many of its pixels, divided by all outputs.",
            better="higher",
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
    max_shift_px: Pixels = 4
    worst_px: PixelsOrZero = 1
    seed: Seed = 0

    def read(self, model: nn.Module, stages: Stages, batch: Batch) -> Result:
        images, labels, black, *_ = batch
        views = images[: self.samples], labels[: self.samples]
        some, few = images[: self.shift_samples], images[: self.stage_samples]
        mapped = images[: self.map_samples], labels[: self.map_samples]
        presets: dict[str, Preset] = {name: PRESETS[name] for name in self.presets}
        changes = relative_change(model, stages, few, self.max_shift_px)
        unchanged = unchanged_outputs(model, stages, few, self.max_shift_px)
        maxima = maximum_sampling(model, stages, few)
        found = by_presets(model, *views, presets, self.seed, black)
        for one in found["presets"].values():
            # Beside each protocol, since circular shifts of networks that pad with zeros are another measure.
            one["model_padding"] = paddings(model)
        return {
            **found,
            **accuracy_of_shifts(model, some, labels[: len(some)], self.worst_px, self.max_shift_px),
            **(
                {"accuracy_over_shifts": accuracy_map(model, *mapped, self.max_shift_px).tolist()}
                if self.map_samples
                else {}
            ),
            "worst_px": self.worst_px,
            "samples": len(views[0]),
            "shift_samples": len(some),
            "map_samples": len(mapped[0]),
            "stage_samples": len(few),
            "seed": self.seed,
            "model_padding": paddings(model),
            "stages": {
                stage: {
                    "relative_change": changes[stage],
                    "unchanged_outputs": unchanged[stage],
                    **maxima[stage],
                }
                for stage in changes
            },
        }
