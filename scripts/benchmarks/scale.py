"""The suite of growth: the time of a training step as one quantity grows and all others stay fixed."""

import statistics
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from cnnpool import pool, tables
from cnnpool.bench.measure import Call, in_turn, kept_bytes
from scripts.benchmarks import growth, many_runs

AXES = {
    "batch": [16, 32, 64, 128, 256],
    "size": [16, 24, 32, 48, 64],
    "channels": [16, 32, 64, 128],
    "operators": [2, 4, 8, 16],
}
"""What grows: images, pixels on a side, channels of the map, downsampling operators in a row."""
BASE = {"batch": 64, "size": 32, "channels": 32, "operators": 1}
WIDTHS, WORDS = (20, 10, 8, 10, 12), {0, 1}


def header() -> str:
    return tables.line(("what", "axis", "value", "ms", "bytes kept"), WIDTHS, WORDS)


def line(row: dict[str, Any]) -> str:
    """One point in the terminal."""
    figures = f"{1e3 * row['seconds']:.3f}", str(row["kept"])
    return tables.line((row["operator"], row["axis"], str(row["value"]), *figures), WIDTHS, WORDS)


def rows(names: list[str], repeat: int) -> Iterator[dict[str, Any]]:
    """Points of every curve: forward and backward of an operator, at stride 1 where several are in a row.

    All points of a curve are timed in turn, so that a busy machine bends none of them. At last, a sweep,
    the event file of a run, and commands that read many runs.
    """
    for name in names:
        for axis, values in AXES.items():
            cases = {value: BASE | {axis: value} for value in values}
            built = {value: _build(name, **case) for value, case in cases.items()}
            times = in_turn({str(value): call for value, (call, _) in built.items()}, repeat)
            for value in values:
                yield {
                    "operator": name,
                    "axis": axis,
                    "value": value,
                    "seconds": statistics.median(times[str(value)]),
                    "kept": built[value][1],
                }
    if sys.platform == "linux":
        yield from growth.rows()
        yield from many_runs.epochs()
        yield from many_runs.rows()


def _build(name: str, batch: int, size: int, channels: int, operators: int) -> tuple[Call, int]:
    torch.manual_seed(0)
    options = {"kernel_size": 3, "stride": 1, "padding": 1} if operators > 1 else {"kernel_size": 2}
    net = nn.Sequential(*(pool.build(name, channels, **options) for _ in range(operators)))
    x = torch.randn(batch, channels, size, size).contiguous(memory_format=torch.channels_last)
    x.requires_grad_()
    grad = torch.randn_like(net(x))
    return lambda: torch.autograd.grad(net(x), x, grad), kept_bytes(net, x)
