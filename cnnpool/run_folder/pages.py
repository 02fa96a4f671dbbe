"""Which scalars TensorBoard shows, and in which order: its first group, and the pages of custom scalars."""

from collections.abc import Iterable

PAGES = {
    "accuracy": ("val/accuracy", "test/accuracy", "train/accuracy", "val/loss", "epoch/train_loss"),
    "gradient": (
        "gradient/zero_fraction",
        "gradient/coverage",
        "gradient/tied_windows",
        "gradient/phase_imbalance",
    ),
    "invariance": (
        "invariance/consistency",
        "invariance/worst_shift_accuracy",
        "invariance/relative_change_1px",
        "aliasing/alias_energy_ratio",
    ),
}
"""Title -> first parts of the tags that have a chart there, the most telling first."""
FIRST = "a first look"
"""The group of charts with the headlines: TensorBoard sorts groups by name and opens the first ones."""
LOOK = {
    "val/accuracy": "accuracy/val",
    "test/accuracy": "accuracy/test",
    "train/accuracy": "accuracy/train",
    "gradient/zero_fraction": "gradient/zero_fraction",
    "invariance/consistency": "invariance/consistency",
}
"""First parts of the tags that are shown there too -> what stands in their place."""
CURVES = ("train", "val", "test")
"""Sections whose every number has a chart."""


def charts(tag: str, shown: str) -> list[str]:
    """The names under which a scalar has a chart: a headline has two, a number for files alone has none.

    Args:
        tag: of the scalar.
        shown: of its quantity, as in :class:`cnnpool.quantity.Quantity`.
    """
    if shown == "file" and tag.partition("/")[0] not in CURVES:
        return []
    firsts = [first for first in LOOK if f"{tag}/".startswith(f"{first}/")]
    return [tag, *(f"{FIRST}/{LOOK[first]}{tag.removeprefix(first)}" for first in firsts)]


def pages(tags: Iterable[str]) -> dict[str, list[str]]:
    """Title -> those of ``tags`` that belong on the page, a chart for each, in the order to be read."""
    every = sorted(tags)
    found = {
        title: [tag for first in firsts for tag in every if f"{tag}/".startswith(f"{first}/")]
        for title, firsts in PAGES.items()
    }
    return {title: charts for title, charts in found.items() if charts}
