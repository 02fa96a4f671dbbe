"""The pages of TensorBoard's custom scalars: accuracy, gradient, invariance."""

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


def pages(tags: Iterable[str]) -> dict[str, list[str]]:
    """Title -> those of ``tags`` that belong on the page, a chart for each, in the order to be read."""
    every = sorted(tags)
    found = {
        title: [tag for first in firsts for tag in every if f"{tag}/".startswith(f"{first}/")]
        for title, firsts in PAGES.items()
    }
    return {title: charts for title, charts in found.items() if charts}
