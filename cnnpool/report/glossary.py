"""The words of a comparison: each measure of its tables and charts in a sentence."""

from collections.abc import Iterable

from cnnpool.quantity import Quantity
from cnnpool.report.comparison import Comparison

CHARTED = ("invariance.stages.<stage>.relative_change.<px>", "gradient.<stage>.zero_fraction")
BETTER = {"higher": " Higher is better.", "lower": " Lower is better.", None: ""}


def entries(comparison: Comparison) -> list[tuple[str, str]]:
    """Name and definition of everything that the comparison's tables and charts show."""
    shown = [comparison.metric.quantity, *(one.quantity for one in comparison.measures)]
    return defined([*shown, *(one for one in comparison.quantities if one.key in CHARTED)])


def defined(quantities: Iterable[Quantity]) -> list[tuple[str, str]]:
    """Name and definition of each of ``quantities``, once; ``d px`` in a name stands for any distance."""
    found = {one.key: one for one in quantities if one.definition}
    return [
        (one.title.replace("<px>", "d"), f"{one.definition}{BETTER[one.better]}") for one in found.values()
    ]
