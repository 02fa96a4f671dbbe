"""Targets of the suite of pooling operators, the figures reached, and why some fall short."""

from itertools import product
from typing import Any, NamedTuple

from cnnpool import tables

LAYOUTS = ("contiguous", "channels_last")
LARGE = [128, 64, 32, 32]


class Target(NamedTuple):
    """So many times as fast as the rival, forward and backward, on a map of ``LARGE``."""

    operator: str
    layout: str
    dtype: str
    times: float
    because: str = ""
    """Why it may be missed."""


MEMORY = "the rival waits for arithmetic, ours for memory: slow memory, or two threads at it, help the rival"
DRAWS = (
    "ours waits for the arithmetic of its random numbers, which other processors do faster (pool-xeon-1.json)"
)
TARGETS = [
    Target("max 2/2", "contiguous", "float32", 8, MEMORY),
    Target("max 2/2", "contiguous", "bfloat16", 10),
    Target("max 3/2", "contiguous", "float32", 8, MEMORY),
    Target("max 2/2", "channels_last", "float32", 1.6, MEMORY),
    Target("max 3/2", "channels_last", "float32", 1.6),
    Target("blur 3/2", "channels_last", "bfloat16", 30),
    Target("blur 3/2 again", "channels_last", "bfloat16", 30),
    Target("blur 3/2", "channels_last", "float32", 2.5, MEMORY),
    Target("blur 3/2", "contiguous", "float32", 5, MEMORY),
    *(Target(*case, "float32", 6, MEMORY) for case in product(("lp p=3", "gem p=3"), LAYOUTS)),
    *(Target("soft", layout, "float32", 5, MEMORY) for layout in LAYOUTS),
    *(Target("stochastic", layout, "float32", 10, DRAWS) for layout in LAYOUTS),
]


def table(files: list[dict[str, Any]]) -> str:
    """Markdown: every target, and what files of results say of it, by number of threads and settings."""
    groups: dict[tuple[int, bool], list[dict[str, Any]]] = {}
    for results in files:
        groups.setdefault((results["machine"]["threads"], is_plain(results)), []).append(results)
    heads = [f"{n} thread{'s' * (n > 1)}{', plain script' * plain}" for n, plain in sorted(groups)]
    rows = []
    for target in TARGETS:
        found = [find(groups[group], *target[:3]) for group in sorted(groups)]
        if not any(found):
            continue
        missed = any(row and row["speedup"]["median"] < target.times for row in found)
        reached = [f"{row['speedup']['median']:.1f}x" if row else "-" for row in found]
        rows.append([*target[:3], f"{target.times:g}x", *reached, target.because if missed else ""])
    headers = ("operator", "layout", "dtype", "wanted", *heads, "if missed, why")
    return tables.markdown(tables.from_rows(headers, rows, numbers=("wanted", *heads)), markup=True) + "\n"


def slower(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of ``rows`` in which ours takes longer than the rival, in three quarters of the turns."""
    return [row for row in rows if "speedup" in row and row["speedup"]["q3"] < 1]


def is_plain(results: dict[str, Any]) -> bool:
    """Whether ``cnnpool bench --plain`` wrote these results."""
    return bool(results["rows"][0].get("plain"))


def find(files: list[dict[str, Any]], operator: str, layout: str, dtype: str) -> dict[str, Any] | None:
    """The row of this case on a map of ``LARGE``, if it was timed."""
    for row in (row for results in files for row in results["rows"]):
        case = row["operator"], row["layout"], row["dtype"], row["shape"]
        if case == (operator, layout, dtype, LARGE) and "speedup" in row:
            return row
    return None
