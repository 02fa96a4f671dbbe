"""Shift invariance: what a shift of the image does to each stage and to the answer."""

from collections.abc import Mapping

from torch import Tensor, nn

from cnnpool.bounds import Count, CountOrZero, Seed
from cnnpool.probe.accuracy import accuracy_map, accuracy_of_shifts
from cnnpool.probe.base import AtLeastTwo, Pixels, PixelsOrZero, Result, paddings
from cnnpool.probe.change import relative_change, unchanged_outputs
from cnnpool.probe.consistency import by_presets
from cnnpool.probe.presets import PRESETS, PresetName
from cnnpool.registry import checked


@checked
class ShiftInvariance:
    """Consistency and accuracy of the classification under shifts, and the change of every stage.

    Args:
        presets: protocols of ``cnnpool.probe.presets.PRESETS``, by name; the first gives
            ``consistency_given_correct``. One that does not fit the images is named under ``skipped``.
        distinct_pairs: measure every preset also with a distinct pair per image, ``consistency_distinct``.
        samples: images for the presets, >= 1.
        shift_samples: images for accuracy under shifts, >= 1.
        map_samples: images for ``accuracy_over_shifts``, the accuracy under every circular shift of up to
            max_shift_px pixels each way, row by row with no shift in the centre, >= 0; 0: none.
        stage_samples: images for the change of the stages, >= 2.
        max_shift_px: largest shift of the stage measures and of accuracy against shift, in pixels, >= 1.
        worst_px: worst- and mean-shift accuracy try every circular shift up to so many pixels each way, >= 0.
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
        distinct_pairs: bool = False,
        samples: Count = 1024,
        shift_samples: Count = 512,
        map_samples: CountOrZero = 128,
        stage_samples: AtLeastTwo = 64,
        max_shift_px: Pixels = 4,
        worst_px: PixelsOrZero = 1,
        seed: Seed = 0,
        every_epochs: CountOrZero = 0,
    ):
        self.presets = presets
        self.distinct_pairs = distinct_pairs
        self.samples = samples
        self.shift_samples = shift_samples
        self.map_samples = map_samples
        self.stage_samples = stage_samples
        self.max_shift_px = max_shift_px
        self.worst_px = worst_px
        self.seed = seed
        self.every_epochs = every_epochs

    def measure(
        self,
        model: nn.Module,
        stages: Mapping[str, nn.Module],
        images: Tensor,
        labels: Tensor,
        black: Tensor | None = None,
    ) -> Result:
        batch = images[: self.samples], labels[: self.samples]
        some, few = images[: self.shift_samples], images[: self.stage_samples]
        mapped = images[: self.map_samples], labels[: self.map_samples]
        presets = {name: PRESETS[name] for name in self.presets}
        changes = relative_change(model, stages, few, self.max_shift_px)
        unchanged = unchanged_outputs(model, stages, few, self.max_shift_px)
        return {
            **by_presets(model, *batch, presets, self.seed, black, distinct=self.distinct_pairs),
            **accuracy_of_shifts(model, some, labels[: len(some)], self.worst_px, self.max_shift_px),
            **(
                {"accuracy_over_shifts": accuracy_map(model, *mapped, self.max_shift_px).tolist()}
                if self.map_samples
                else {}
            ),
            "worst_px": self.worst_px,
            "samples": len(batch[0]),
            "shift_samples": len(some),
            "map_samples": len(mapped[0]),
            "stage_samples": len(few),
            "seed": self.seed,
            "model_padding": paddings(model),
            "stages": {
                stage: {"relative_change": changes[stage], "unchanged_outputs": unchanged[stage]}
                for stage in changes
            },
        }
