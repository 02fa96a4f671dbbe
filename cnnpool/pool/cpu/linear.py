"""Separable linear pooling of plain CPU tensors by compiled kernels: averages, sums and blurs."""

from functools import lru_cache
from itertools import accumulate
from math import frexp
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cnnpool.pool.autograd.linear_maps import Averaging, Blurring, Entries, transposed
from cnnpool.pool.cpu.compiling import Kernel
from cnnpool.pool.cpu.loops import avg_2x2, separable
from cnnpool.pool.cpu.memory import aligned, empty, scalar, table
from cnnpool.pool.cpu.threads import spread
from cnnpool.pool.window import memory_format, stated_format, wide_of


class Axis(NamedTuple):
    """One axis of a map: the (pixel, weight) terms of every output, and those of a window inside the map."""

    length: int
    stride: int
    entries: Entries
    taps: tuple[tuple[int, float], ...]
    """(offset from stride * output, weight) of a window that lies inside."""

    @property
    def adjoint(self) -> Entries:
        """The sums of the transposed map."""
        return transposed(self.entries, self.length)


class Table:
    """Entries in memory for kernels: start of each result's entries, their places, their weights."""

    def __init__(self, entries: Entries, wide: torch.dtype, ends: tuple[int, int, int] = (0, 0, 0)):
        flat = [entry for several in entries for entry in several]
        starts = list(accumulate(map(len, entries), initial=0))
        places, weights = [place for place, _ in flat], [weight for _, weight in flat]
        self.held = table(starts, torch.int64), table(places, torch.int64), table(weights, wide)
        self.pointers = tuple(t.data_ptr() for t in self.held)
        self.ends = ends


class Plan:
    """Tables for sums over the windows of maps of one size; 2x2 tiles have one weight, ``tile``."""

    def __init__(
        self,
        down: Axis,
        across: Axis,
        divisors: list[list[int]] | None = None,
        tile: float | None = None,
    ):
        self.axes, self.divisors, self.tile = (down, across), divisors, tile
        self.size, self.out_size = (down.length, across.length), (len(down.entries), len(across.entries))
        self.ready: dict[tuple[bool, torch.dtype], tuple[Any, ...]] = {}

    def tables(self, adjoint: bool, wide: torch.dtype) -> tuple[Table, Table, Table, Tensor | None]:
        """Tables of rows, of columns, of the sums that inner columns share, and divisors."""
        key = adjoint, wide
        if key not in self.ready:
            down, across = (axis.adjoint if adjoint else axis.entries for axis in self.axes)
            divisors = None if self.divisors is None else table(self.divisors, wide)
            common = _common(self.axes[1], adjoint, *self.out_size, wide)
            self.ready[key] = Table(down, wide), Table(across, wide), common, divisors
        return self.ready[key]


@lru_cache(maxsize=256)
def blur_plan(blurring: Blurring) -> Plan:
    """Binomial blur and subsampling."""
    down, across = (
        Axis(length, stride, blurring.entries(axis), blurring.window(axis))
        for axis, (length, stride) in enumerate(zip(blurring.size, blurring.stride, strict=True))
    )
    return Plan(down, across)


@lru_cache(maxsize=256)
def average_plan(averaging: Averaging) -> Plan:
    """Sums of windows divided by a number, or by the number of counted cells."""
    window, counting, size, _ = averaging
    axes = []
    for axis, (length, k, s, p) in enumerate(zip(size, *window[:3], strict=True)):
        entries = tuple(tuple((i, 1.0) for i in cells) for cells in averaging.cells(axis))
        axes.append(Axis(length, s, entries, tuple((i - p, 1.0) for i in range(k))))
    down, across = axes
    counts = averaging.counts(0), averaging.counts(1)
    divisors = [[counting.override or rows * columns for columns in counts[1]] for rows in counts[0]]
    only = {number for row in divisors for number in row}
    if len(only) > 1 or abs(frexp(next(iter(only)))[0]) != 0.5:
        return Plan(down, across, divisors)
    # Division by a power of two is exact, so it can precede the sum.
    weight = 1 / next(iter(only))
    down = down._replace(entries=tuple(tuple((i, weight) for i, _ in several) for several in down.entries))
    tiles = window[:3] == ((2, 2), (2, 2), (0, 0)) and averaging.output_size == (size[0] // 2, size[1] // 2)
    return Plan(down, across, tile=weight if tiles else None)


def blur(x: Tensor, blurring: Blurring, adjoint: bool) -> Tensor:
    """Binomial blur and subsampling (N, C, H', W') of ``x`` (N, C, H, W), or the transpose, rounded once."""
    return _run(adjoint, x, blur_plan(blurring), blurring.channels_last)


def average(x: Tensor, averaging: Averaging, adjoint: bool) -> Tensor:
    """Means (N, C, H', W') of the windows of ``x`` (N, C, H, W), or the transpose; summed as by ``blur``."""
    return _run(adjoint, x, average_plan(averaging), averaging.channels_last)


def _run(adjoint: bool, x: Tensor, plan: Plan, last: bool) -> Tensor:
    layout, stated = memory_format(last), stated_format(x, last)
    wide = wide_of(x)
    x = x.contiguous(memory_format=layout)
    (samples, channels), size, out_size = x.shape[:2], plan.size, plan.out_size
    shape = (samples, channels, *(size if adjoint else out_size))
    result = empty(shape, x.dtype, stated)
    if plan.tile is not None:
        _tiles(adjoint, x, result, plan, last, scalar(plan.tile, wide))
        return result
    down, across, common, divisors = plan.tables(adjoint, wide)
    divided = 0 if divisors is None else divisors.data_ptr()
    pixels = out_size[0] * out_size[1]
    kernel: Kernel[..., None]
    if last:
        kernel = separable.adjoint_last if adjoint else separable.forward_last
        units = samples if adjoint else samples * out_size[0]
        counts = (pixels, out_size[1], 1) if adjoint else (size[1], 1)
        room, scratch = room_of(wide.itemsize, *(n * channels for n in counts))
        rest: tuple[Any, ...] = channels, down.pointers, across.pointers, divided, room
    else:
        kernel = separable.adjoint if adjoint else separable.forward
        units = samples * channels
        room, scratch = plane_room(plan, wide)
        rest = down.pointers, across.pointers, common.pointers, common.ends, divided, room
    where = x.data_ptr(), result.data_ptr(), size, out_size
    numbers = scalar(0.0, wide), scalar(0.0, x.dtype)
    spread(kernel, units, x.nbytes + result.nbytes, *where, *rest, *numbers, scratch=scratch)
    return result


def _tiles(adjoint: bool, x: Tensor, result: Tensor, plan: Plan, last: bool, weight: Any) -> None:
    (samples, channels), lines = x.shape[:2], result.shape[2]
    where, rest = (x.data_ptr(), result.data_ptr(), plan.size, plan.out_size), (weight, scalar(0.0, x.dtype))
    moved = x.nbytes + result.nbytes
    kernel: Kernel[..., None]
    if last:
        kernel = avg_2x2.adjoint_last if adjoint else avg_2x2.forward_last
        spread(kernel, samples * lines, moved, *where, channels, *rest)
    else:
        kernel = avg_2x2.adjoint if adjoint else avg_2x2.forward
        spread(kernel, samples * channels, moved, *where, *rest)


def _common(axis: Axis, adjoint: bool, rows: int, columns: int, wide: torch.dtype) -> Table:
    """The sums of results away from the ends, if columns can be computed as if they had no ends."""
    stride, part = axis.stride, rows * columns
    if stride > 2 or axis.length != columns * stride:
        return Table((), wide)
    if adjoint:
        plain = [
            tuple((-((k - q) // stride), w) for k, w in axis.taps[::-1] if (k - q) % stride == 0)
            for q in range(stride)
        ]
        whole = [tuple((i // stride + k, w) for k, w in plain[i % stride]) for i in range(axis.length)]
        ends = _ends(axis.adjoint, whole)
    else:
        plain = [tuple((k % stride * part + k // stride, w) for k, w in axis.taps)]
        ends = _ends(axis.entries, [tuple((o * stride + k, w) for k, w in axis.taps) for o in range(columns)])
    return Table(tuple(plain), wide, (stride, *ends))


def _ends(entries: Entries, plain: list[tuple[tuple[int, float], ...]]) -> tuple[int, int]:
    """Numbers of results on the left and on the right that include all that differ from the plain ones."""
    count = len(plain)
    other = [i for i, (a, b) in enumerate(zip(entries, plain, strict=True)) if sorted(a) != sorted(b)]
    left = max((i + 1 for i in other if 2 * i < count), default=0)
    return left, max((count - i for i in other if 2 * i >= count), default=0)


def plane_room(plan: Plan, wide: torch.dtype) -> tuple[tuple[int, ...], int]:
    """``room_of`` the sums over one plane of a contiguous map."""
    (height, width), (rows, columns) = plan.size, plan.out_size
    return room_of(wide.itemsize, *[rows * width] * 2, rows * columns, max(height * width, rows))


def room_of(width: int, *counts: int) -> tuple[tuple[int, ...], int]:
    """Bytes of a number, offsets of arrays of ``counts`` numbers with margins between, and bytes in all."""
    margin, offsets, at = 256, [], 256
    for count in counts:
        offsets.append(at)
        at += aligned(count * width) + margin
    return (width, *offsets), at
