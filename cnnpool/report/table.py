"""``cnnpool.compare``: the comparison of runs from Python, as the table of ``table.csv``."""

import os
from collections.abc import Sequence
from typing import Any, Literal

from cnnpool.report import columns, render
from cnnpool.report.comparison import Comparison
from cnnpool.report.comparison import compare as _compare
from cnnpool.report.foreign import Value, logged, read
from cnnpool.report.runs import keys_of

WIDTH = 160
"""Characters per line when a table is printed."""


class Table(list[dict[str, Any]]):
    """One record per choice and metric, as in ``table.csv``; prints as the text of ``cnnpool compare``."""

    def __init__(self, comparison: Comparison):
        super().__init__(columns.records(comparison))
        self.comparison = comparison

    def __repr__(self) -> str:
        return render.text(self.comparison, width=WIDTH, colour=False)


def compare(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    metric: str = "",
    *,
    by: str = "",
    where: Sequence[str] = (),
    baseline: str | None = None,
    allow: Sequence[str] = (),
    best: Literal["", "max", "min"] = "",
    last: int | None = None,
    margin: float | None = None,
) -> Table:
    """Compare runs of cnnpool, or the logs of other programs, as ``cnnpool compare`` does.

    Args:
        paths: a folder or file, or several.
        metric: one, or several by commas; empty for ``test.accuracy``, or an accuracy of other programs.
        by: keys that define a choice, by commas, or a pattern of folders: ``"{group}/seed_{seed}"``.
        where: conditions ``KEY=VALUE`` that a run must meet.
        baseline: the choice with which the others are compared.
        allow: keys that may differ among runs of cnnpool.
        best: for logs, the better direction; without ``last``, use the best value of each run.
        last: for logs, the mean of this many last points, >= 1; the last one without ``best``.
        margin: largest difference that does not matter, > 0.

    Returns:
        A list of one flat dict per choice and metric, ready for ``pandas.DataFrame``.

    Raises:
        ValueError: for invalid arguments, or runs that cannot be compared, in a few lines.
    """
    every = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    runs = read(every, metric, by, Value(best, last))
    keys = [] if logged(runs) else keys_of(by)
    return Table(
        _compare(runs, by=keys, where=where, metric=metric, against=baseline, allow=allow, margin=margin)
    )
