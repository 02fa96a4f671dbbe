"""Measurements of a model; each leaves the model unchanged."""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

from cnnpool import registry
from cnnpool.probe.aliasing import Aliasing
from cnnpool.probe.base import Batch, Probe
from cnnpool.probe.consistency import PRESETS
from cnnpool.probe.corruptions import Corruptions
from cnnpool.probe.cost import Cost
from cnnpool.probe.equivariance import Equivariance, HeatMap, LieDerivative
from cnnpool.probe.gradient import GradientRouting
from cnnpool.probe.invariance import ShiftInvariance
from cnnpool.probe.receptive_field import ReceptiveField
from cnnpool.probe.shifted_logits import AdversarialShift, AllShifts, Diagonal
from cnnpool.quantity import Quantity, Shown, count, deviation, fraction, ratio, score

PROBES: dict[str, type[Probe]] = {
    "adversarial": AdversarialShift,
    "aliasing": Aliasing,
    "all_shifts": AllShifts,
    "corruptions": Corruptions,
    "cost": Cost,
    "diagonal": Diagonal,
    "equivariance": Equivariance,
    "gradient": GradientRouting,
    "heat_map": HeatMap,
    "invariance": ShiftInvariance,
    "lie": LieDerivative,
    "receptive_field": ReceptiveField,
}

SMOOTHED = "cross entropy with fit.label_smoothing"


def _scores(split: str, images: str, shown: Shown, loss: str = "cross entropy") -> tuple[Quantity, ...]:
    right = f"Images classified correctly, divided by all images: {images}."
    return (
        score(f"{split}.accuracy", f"{split} accuracy", right, shown=shown, headline=True),
        deviation(f"{split}.loss", f"{split} loss", f"Mean {loss}, {images}.", shown="file"),
    )


BY_CLASS = (
    score(
        "test.balanced_accuracy",
        "balanced accuracy",
        "Mean over the classes of the accuracy on the test images of each, so that a small class counts as "
        "much as a large one. Reported for data sets of your own.",
        shown="compare",
    ),
    score(
        "test.class_accuracy.<class>",
        "accuracy on <class>",
        "Test images of the class that are classified correctly, divided by all of the class. Reported for "
        "data sets of your own; dots in a name become underscores.",
        shown="compare",
    ),
)
"""Accuracy on single classes; reports show up to ``cnnpool.fit.scores.LISTED`` of them."""

TRAINING = (
    *_scores("test", "the test images, once training is over", "probe"),
    *(
        score(
            f"test.{which}_accuracy",
            f"test accuracy, {which} weights",
            f"Test images classified correctly by the weights of {words}, divided by all test images. "
            "Reported where the best epoch is not the last.",
            shown="file",
        )
        for which, words in (
            ("last", "the last step"),
            ("best", "the epoch with the best validation accuracy"),
        )
    ),
    *BY_CLASS,
    *_scores("val", "the validation images", "file"),
    *_scores("train", "the training images in one epoch's batches, as they were augmented", "file", SMOOTHED),
    ratio("epoch.train_loss", "training loss", f"Mean {SMOOTHED} of an epoch's training steps."),
    ratio("train.learning_rate", "learning rate", "Learning rate of the step."),
    count(
        "cost.train_images_per_s",
        "images/s",
        "Training images divided by the seconds of training, validation and probes left out.",
        better="higher",
        shown="compare",
        timed=True,
        headline=True,
    ),
    Quantity(
        "cost.wall_s",
        "wall time",
        "Seconds from the start of a run to its last measurement, interruptions left out.",
        unit="s",
        better="lower",
        range=(0.0, None),
        shown="compare",
        timed=True,
    ),
    fraction(
        "cost.load",
        "load by others",
        "Processor time that other programs took while the run trained, divided by that of all processors it "
        "could use. Times of a run with more than 10 % say little.",
        shown="file",
    ),
)
"""Quantities that a training reports besides its probes."""


def build(name: str, **options: Any) -> Probe:
    """The probe called ``name``.

    Raises:
        ValueError: for an unknown name or option, a value out of range, or a probe without quantities.

    Example:
        >>> from torch import nn, rand, zeros
        >>> from cnnpool.probe import build
        >>> network = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
        >>> build("all_shifts").measure(network, {}, rand(2, 1, 8, 8), zeros(2).long())["shifts"]
        64
    """
    built: Probe = registry.construct(PROBES, "probes", name, **options)
    if not hasattr(built, "quantities"):
        raise ValueError(f"the probe {name} declares no quantities: derive it from cnnpool.probe.Probe")
    return built


def declared(probes: Iterable[Probe | type[Probe]] | None = None) -> list[Quantity]:
    """All quantities of ``probes`` (None: of all packages) and of a training, by keys in ``results.json``."""
    entries = registry.entries(PROBES, "probes").values() if probes is None else probes
    return [*(one.below(entry.section) for entry in entries for one in entry.quantities), *TRAINING]


def quantities_of(probe: Probe, names: Sequence[str] | None) -> list[Quantity]:
    """The quantities that ``probe`` measures of these names, their keys without the stage, or of groups of
    them; else a ValueError.
    """
    others = PRESETS.keys() - probe.presets if isinstance(probe, ShiftInvariance) else set()
    measured = [one for one in probe.quantities if not others.intersection(one.key.split("."))]
    if names is None:
        return measured
    known: dict[str, list[Quantity]] = {}
    for one in measured:
        parts = [part for part in one.key.split(".") if part not in ("stages", "<stage>", "<px>")]
        for name in accumulate(parts, "{}.{}".format):
            known.setdefault(name, []).append(one)
    for name in names:
        if name not in known:
            raise ValueError(
                f"quantities: {probe.section} has no {name!r}; {registry.did_you_mean(name, known)}"
            )
    return [one for name in names for one in known[name]]


__all__ = [
    "PROBES",
    "TRAINING",
    "AdversarialShift",
    "Aliasing",
    "AllShifts",
    "Batch",
    "Corruptions",
    "Cost",
    "Diagonal",
    "Equivariance",
    "GradientRouting",
    "HeatMap",
    "LieDerivative",
    "Probe",
    "ReceptiveField",
    "ShiftInvariance",
    "build",
    "declared",
]
