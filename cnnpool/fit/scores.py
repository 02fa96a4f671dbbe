"""Scores: their sums, as text by epoch and class, and a warning of accuracies no better than chance."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import Any, Literal

import torch
from lightning.pytorch import Trainer
from torch import Tensor
from torchmetrics import Metric, MetricCollection

from cnnpool.data import Dataset
from cnnpool.probe import BY_CLASS
from cnnpool.quantity import Quantity
from cnnpool.run_folder.results import at_chance
from cnnpool.tables import printable

LISTED = 20  # Most classes for which a report has a column each
OWN_SCORES = {f"{kind}accuracy" for kind in ("", "balanced_", "best_", "class_", "last_")} | {"loss"}


def score(loss: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
    """(summed loss, correct answers, images) in float64; of mixed images the largest share is right."""
    labels = labels.argmax(1) if labels.ndim == 2 else labels
    correct = (logits.detach().argmax(1) == labels).sum(dtype=torch.float64)
    return torch.stack((loss.detach().double(), correct, correct.new_full((), len(labels))))


def gathered(own: Tensor, trainer: Trainer) -> Tensor:
    """Interleave the results of several processes: each has every world-th image, from its rank on."""
    if trainer.world_size > 1:
        counts = trainer.strategy.all_gather(torch.tensor([len(own)], device=own.device))
        share = own.new_zeros(int(counts.max()), dtype=torch.uint8)
        share[: len(own)] = own
        own = trainer.strategy.all_gather(share).T.flatten()[: int(counts.sum())].bool()
    return own.cpu()


def epochs_header(splits: Sequence[str]) -> str:
    columns = "".join(f"   {f'{split} loss':>10}   {f'{split} accuracy':>14}" for split in splits)
    return f"{'':11}{columns}   {'time':>7}"


def epochs_row(
    epoch: str, splits: Sequence[str], scores: Mapping[str, Mapping[str, float]], seconds: float
) -> str:
    """A row of that table, with blanks for splits that this epoch did not evaluate."""
    cells = "".join(
        f"   {scores[split]['loss']:>10.4f}   {100 * scores[split].get('accuracy', nan):>12.2f} %"
        if split in scores
        else f"{'':30}"
        for split in splits
    )
    return f"{f'epoch {epoch}':<11}{cells}   {seconds:>5.1f} s"


def by_class(correct: Tensor, labels: Tensor, classes: Sequence[str]) -> dict[str, Any]:
    """``balanced_accuracy``, 0..1, the mean over classes that have images, and ``class_accuracy`` by name."""
    images = labels.bincount(minlength=len(classes)).tolist()
    right = labels[correct].bincount(minlength=len(classes)).tolist()
    shares = {key: own / total for key, own, total in zip(keys(classes), right, images, strict=True) if total}
    return {"balanced_accuracy": sum(shares.values()) / len(shares), "class_accuracy": shares}


def keys(classes: Sequence[str]) -> list[str]:
    """The classes' names as parts of a dotted key and of a tag, all distinct."""
    found: dict[str, None] = {}
    for name in classes:
        key = base = printable(name).replace(".", "_").replace("/", "_")
        number = 2
        while key in found:
            key, number = f"{base} ({number})", number + 1
        found[key] = None
    return list(found)


def listed(quantities: Sequence[Quantity], dataset: Dataset) -> list[Quantity]:
    """``quantities`` without the columns of single classes if there are too many for reports."""
    many = dataset.num_classes > LISTED
    return [replace(one, shown="file") if many and one.key == BY_CLASS[1].key else one for one in quantities]


def collected(metrics: Mapping[str, Metric]) -> MetricCollection:
    """The metrics of a subclass of ``Classifier`` as one; a ValueError for a name that is not free."""
    for name in metrics:
        if name in OWN_SCORES or "." in name:
            own = ", ".join(sorted(OWN_SCORES))
            raise ValueError(f"the metric {name} needs another name, without a dot and none of {own}")
    return MetricCollection({**metrics})


def own_quantities(metrics: Mapping[str, Metric]) -> list[Quantity]:
    """The metrics of a subclass of ``Classifier``, as reports read them."""
    better: dict[bool | None, Literal["higher", "lower"] | None] = {True: "higher", False: "lower"}
    found = []
    for name, metric in metrics.items():
        words = f"{type(metric).__name__} of torchmetrics, on the"
        own: dict[str, Any] = {"form": "ratio", "better": better.get(metric.higher_is_better)}
        found.append(Quantity(f"test.{name}", name, f"{words} test images.", shown="compare", **own))
        found.append(Quantity(f"val.{name}", f"val {name}", f"{words} validation images.", **own))
    return found


def of_own_loss(quantities: Sequence[Quantity], kind: type, usual: type) -> list[Quantity]:
    """``quantities`` whose losses are defined by the methods that ``kind`` has in place of the ``usual``."""
    scored, trained = ("loss",), ("training_step", "loss")
    ways = {"test.loss": scored, "val.loss": scored, "train.loss": trained, "epoch.train_loss": trained}
    found = list(quantities)
    for place, one in enumerate(found):
        if own := [way for way in ways.get(one.key, ()) if getattr(kind, way) is not getattr(usual, way)]:
            said = re.sub(r"cross entropy( with \S+\b)?", f"of {kind.__name__}.{own[0]}", one.definition)
            found[place] = replace(one, definition=said)
    return found


def sentence(test: dict[str, Any]) -> str:
    """The balanced accuracy, and the classes with the lowest and the highest accuracy."""
    shares = test["class_accuracy"]
    low, high = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    return (
        f"balanced accuracy {100 * test['balanced_accuracy']:.2f} %, from {100 * shares[low]:.1f} % on {low} "
        f"to {100 * shares[high]:.1f} % on {high}"
    )


def chance_warning(accuracy: float, counts: Sequence[int], steps: int) -> str:
    """A warning if always predicting the commonest class would reach this accuracy, 0..1; else empty."""
    if not at_chance(accuracy, counts):
        return ""
    share = max(counts) / sum(counts)
    return (
        f"the network learned nothing useful for the test images: accuracy {100 * accuracy:.1f} %, and "
        f"{100 * share:.1f} % by always predicting the commonest class, after {steps:,} steps. Try "
        "a lower fit.lr, more fit.epochs, or a smaller data.batch_size"
    )
