"""Tables of docs/performance.md: the rows of the operators' suite, cell by cell."""

from collections.abc import Callable

from cnnpool import tables
from cnnpool.bench.results import Row, count, replayed, shape

Columns = dict[str, Callable[[Row], str]]


def _faster(row: Row) -> str:
    speed = row["speedup"]
    return f"**{speed['median']:.2f}x** ({speed['q1']:.2f} to {speed['q3']:.2f}, {speed['n']})"


_CASE: Columns = {"map": shape, "layout": lambda row: row["layout"], "dtype": lambda row: row["dtype"]}
_TIMES: Columns = {
    "ours, ms": lambda row: f"{row['ms']['ours']:.3g}",
    "rival, ms": lambda row: f"{row['ms']['rival']:.3g}",
    "faster (quartiles, n)": _faster,
}
_KEPT: Columns = {"kept": lambda row: count(row, "ours"), "rival keeps": lambda row: count(row, "rival")}
_BOUND: Columns = {"over bound": lambda row: f"{row['over_bound']['median']:.1f}x"}
_REPLAYED: Columns = {
    "replayed faster": lambda row: replayed(row, "speedup"),
    "replayed over bound": lambda row: replayed(row, "over_bound"),
}
ON_CPU, ON_GPU = (_CASE | _TIMES | part | _KEPT for part in (_BOUND, _REPLAYED))


def table(rows: list[Row], columns: Columns) -> str:
    """One operator's rows as Markdown, and why its steps could not be replayed where they could not."""
    table = [[cell(row) for cell in columns.values()] for row in rows]
    reasons = dict.fromkeys(row["not_replayed"] for row in rows if "not_replayed" in row)
    parts = [
        f"### {rows[0]['operator']}, against {rows[0]['rival']}\n",
        tables.markdown(tables.from_rows(tuple(columns), table, numbers=columns.keys() - _CASE), markup=True),
        *(f"\nNot replayed: {reason}" for reason in reasons),
    ]
    return "\n".join(parts) + "\n"
