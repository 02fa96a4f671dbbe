"""Rows of the operators' suite in the terminal."""

from typing import Any

from cnnpool import tables

Row = dict[str, Any]
WIDTHS, WORDS = (14, 16, 13, 8, 8, 8, 6, 11, 7, 10, 11, 8), {0, 1, 2, 3, 7}
NAMES = ("operator", "shape", "layout", "dtype", "ours ms", "rival ms", "faster", "quartiles", "bound")


def header(gpu: bool = False) -> str:
    """The names of the cells of ``line``."""
    return tables.line((*NAMES, "kept", "rival keeps", "replayed" * gpu), WIDTHS, WORDS)


def line(row: Row) -> str:
    """One row of the table."""
    case = (row["operator"], shape(row), row["layout"], row["dtype"])
    if "missing" in row:
        return tables.line((*case, *["-"] * 7, ""), WIDTHS, WORDS)
    speed, ms = row["speedup"], row["ms"]
    figures = (
        f"{ms['ours']:.3f}",
        f"{ms['rival']:.3f}",
        f"{speed['median']:.2f}x",
        f"[{speed['q1']:.2f} {speed['q3']:.2f}]",
        f"{row['over_bound']['median']:.1f}x",
        *(count(row, who) for who in ("ours", "rival")),
        replayed(row, "speedup") if "replayed" in row else "",
    )
    return tables.line((*case, *figures), WIDTHS, WORDS)


def shape(row: Row) -> str:
    """The map, as NxCxHxW."""
    return "x".join(map(str, row["shape"]))


def count(row: Row, who: str) -> str:
    """Bytes that ``who`` keeps for the backward pass."""
    kept = row["kept"][who]
    for unit, size in (("MB", 1e6), ("kB", 1e3)):
        if kept >= size:
            return f"{kept / size:.1f} {unit}"
    return f"{kept} B"


def replayed(row: Row, key: str) -> str:
    """The median of a ratio of steps replayed from CUDA graphs, or that there is none."""
    return f"{row['replayed'][key]['median']:.2f}x" if row["replayed"] else "-"
