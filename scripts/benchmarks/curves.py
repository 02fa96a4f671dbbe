"""The findings of the suite of growth, as a section of the documentation."""

import math
import statistics
from typing import Any

from cnnpool import tables
from scripts.benchmarks import growth
from scripts.benchmarks.figures import setting

NAMES = {"batch": "images", "size": "pixels on a side", "channels": "channels", "operators": "operators"}
POWER = {"batch": 1, "size": 2, "channels": 1, "operators": 1}
"""With which power of what grows the work does, where it is the operator's own."""

HEAD = """\
One operator forward and backward, as one thing grows and all else stays: the power of it with which the time
and the bytes kept for the backward pass grow. Time grows faster than the work where a map stops fitting into
a cache on the way.

![time](scale_time.png)

![memory](scale_memory.png)
"""
MANY = """
Many runs, of ten choices on digits, copied from a real one of each with drawn accuracies: `cnnpool compare`
with its figures, TensorBoard's tab from its start to the comparison, and a sweep asked for once more, which
composes every job and finds it finished. Memory is the most that is resident; of the event file, its size.

![many runs](scale_runs.png)

"""
MANY_COLUMNS = ("what", "of", "s", "MB")
COLUMNS = ("operator", "what grows", "work", "time", "bytes kept")


def exponent(points: list[tuple[float, float]]) -> float:
    """The power p of the line y = a x^p through points of logarithms, by least squares."""
    logs = [(math.log(x), math.log(y)) for x, y in points]
    return statistics.linear_regression(*zip(*logs, strict=True)).slope


def section(results: dict[str, Any]) -> str:
    """One results file as a section of docs/performance.md, beside the pictures of docs/."""
    curves: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in results["rows"]:
        curves.setdefault((row["operator"], row["axis"]), []).append(row)
    powers = [_powers(*key, curve) for key, curve in curves.items() if key[1] in POWER]
    sweeps = [_sweep(curve) for (name, _), curve in curves.items() if name == growth.NAME]
    rest = {k: v for k, v in curves.items() if k[1] not in POWER and k[0] != growth.NAME}
    table = tables.markdown(tables.from_rows(COLUMNS, powers, numbers=COLUMNS[2:]))
    return f"## What grows with what\n\n{setting(results)}\n{HEAD}\n{table}\n{''.join(sweeps)}{_many(rest)}"


def _powers(operator: str, axis: str, curve: list[dict[str, Any]]) -> tuple[str, ...]:
    time, kept = ([(row["value"], row[key]) for row in curve] for key in ("seconds", "kept"))
    memory = f"{exponent(kept):.2f}" if all(count for _, count in kept) else "nothing is kept"
    return operator, NAMES[axis], str(POWER[axis]), f"{exponent(time):.2f}", memory


def _many(curves: dict[tuple[str, str], list[dict[str, Any]]]) -> str:
    """Commands that read many runs, and a run of many epochs, at each number of them."""
    if not curves:
        return ""
    lines = [
        (name, f"{row['value']:,} {axis}"[: -1 if row["value"] == 1 else None], *_spent(row))
        for (name, axis), curve in curves.items()
        for row in sorted(curve, key=lambda row: row["value"])
    ]
    return MANY + tables.markdown(tables.from_rows(MANY_COLUMNS, lines, numbers=MANY_COLUMNS[2:])) + "\n"


def _spent(row: dict[str, Any]) -> tuple[str, str]:
    return f"{row['seconds']:.1f}", f"{row['kept'] / 1e6:.3g}"


def _sweep(curve: list[dict[str, Any]]) -> str:
    line = statistics.linear_regression(*zip(*((r["value"], r["seconds"]) for r in curve), strict=True))
    first, last = (f"{row['kept'] / 1e6:.0f} MB" for row in (curve[0], curve[-1]))
    runs = curve[-1]["value"]
    return (
        f"\nA sweep of {runs} tiny runs in one process (`launch=local`): {line.intercept:.1f} s "
        f"until the first starts, Hydra composing all of them first, and {line.slope:.2f} s a run;\n"
        f"{first} resident after the first run, {last} after the last.\n"
    )
