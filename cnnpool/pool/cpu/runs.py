"""How kernels go over a map: in place by the channels of a pixel, or by planes in scratch memory; and tables
of the pixels that every result takes, with a number for each.
"""

from collections.abc import Sequence
from itertools import accumulate, product
from typing import Any, NamedTuple

import torch

from cnnpool.pool.autograd.separable import Entries, transposed
from cnnpool.pool.cpu.loops.lanes import LANES
from cnnpool.pool.cpu.loops.planes import FEW
from cnnpool.pool.cpu.memory import aligned, table

Lists = Sequence[Sequence[tuple[int, float]]]
"""(place, number) of the cells of every result along an axis."""
Axis = tuple[int, int, int, int, int, int]
"""Pixels, windows, cells, stride, padding and dilation along one axis."""


class Plan(NamedTuple):
    """The facts that a kernel needs of maps of one size: by planes in ``scratch`` bytes, or 0, in place."""

    kernel: Any
    out_size: tuple[int, int]
    units: int
    """Shares of the work per sample."""
    scratch: int
    rest: tuple[Any, ...]
    held: tuple[Any, ...]
    """Keeps what ``rest`` points to."""


class Cells:
    """Cells of every result in memory for kernels: their places, and a number for each.

    A result's cells are those of its row times those of its column: places and numbers add up, weights (of
    ``dtype``) are multiplied. Results whose cells are alike, relative to the first, share a list.
    """

    def __init__(self, rows: Lists, columns: Lists, dtype: torch.dtype = torch.int32):
        (tall, kinds), (wide, others) = _alike(rows), _alike(columns)
        entries = []
        for some, more in product(kinds, others):
            entries.append(
                [(a + b, p * q if dtype.is_floating_point else p + q) for a, p in some for b, q in more]
            )
        flat = [entry for several in entries for entry in several]
        starts = list(accumulate(map(len, entries), initial=0))
        tall = [(kind * len(others), base) for kind, base in tall]
        self.held = (
            table([place for place, _ in flat], torch.int64),
            table([number for _, number in flat], dtype),
            *(table(several, torch.int64) for several in (starts, tall, wide)),
        )
        few = (0,) * len(flat) if len(entries) == 1 and len(flat) == FEW else ()
        self.pointers = (*(t.data_ptr() for t in self.held), few)


def _alike(lists: Lists) -> tuple[list[tuple[int, int]], list[tuple[tuple[int, float], ...]]]:
    """The kind of every list and its first place, and the lists of each kind, relative to that."""
    kinds: dict[tuple[tuple[int, float], ...], int] = {}
    found = []
    for several in lists:
        base = several[0][0] if several else 0
        relative = tuple((place - base, number) for place, number in several)
        found.append((kinds.setdefault(relative, len(kinds)), base))
    return found, list(kinds)


def in_place(channels: int, last: bool) -> bool:
    """Whether kernels read the pixels of a map where they are: a vector of channels fits into one."""
    return last and channels >= LANES


class Planes(NamedTuple):
    """The planes of maps of one size, dealt by the strides."""

    axes: tuple[Axis, Axis]
    pixel: int
    channels: int
    groups: int
    """Planes of a sample (channels last) or of a channel."""
    above: int
    before: int
    """Windows above and to the left of a pixel's own that may also contain it."""
    lines: int
    pitch: int
    part: int
    beside: bool
    """Whether the second cells across have a part of their own: rows lie as close as in a map."""

    @property
    def map(self) -> tuple[int, int, int, int]:
        return self.axes[0][0], self.axes[1][0], self.pixel, self.channels

    @property
    def outputs(self) -> tuple[int, int, int, int]:
        return self.axes[0][1], self.axes[1][1], self.pixel, self.channels

    @property
    def grid(self) -> tuple[int, int, int, int, int, int]:
        (_, _, _, sh, ph, _), (_, _, _, sw, pw, _) = self.axes
        return sh, sw, ph, pw, self.pitch, self.part

    @property
    def image(self) -> int:
        """Numbers of all parts of a plane."""
        return self.axes[0][3] * self.axes[1][3] * self.part * (1 + self.beside)

    @property
    def windows(self) -> int:
        """Numbers of all windows of a plane, those between the last of a row and the next row included."""
        return self.axes[0][1] * self.pitch * self.pixel

    @property
    def begin(self) -> int:
        """Where the first window's number lies in scratch, when those around the map are there as well."""
        return (self.above * self.pitch + self.before) * self.pixel

    @property
    def pixels(self) -> int:
        """Numbers of all pixels of one part."""
        return self.lines * self.pitch * self.pixel

    def cells(self, axis: int, factor: int = 1) -> list[list[tuple[int, int]]]:
        """Where the run of each cell along an axis begins, and the cell times ``factor``: of one result."""
        return [[(self._run(axis, i), i * factor) for i in range(self.axes[axis][2])]]

    def adjoint_cells(self, axis: int, factor: int = 1) -> list[list[tuple[int, int]]]:
        """For each part along an axis, the distances of its windows, in order, and cells times ``factor``."""
        _, _, count, stride, _, dilation = self.axes[axis]
        step = (self.pitch if axis == 0 else 1) * self.pixel
        cells = [(i, i * dilation) for i in range(count - 1, -1, -1)]
        return [
            [(-(reach // stride * step), i * factor) for i, reach in cells if reach % stride == part]
            for part in range(stride)
        ]

    def _run(self, axis: int, cell: int) -> int:
        _, _, _, stride, _, dilation = self.axes[axis]
        part, over = cell * dilation % stride, cell * dilation // stride
        if axis == 0:
            return part * self.axes[1][3] * self.part + over * self.pitch * self.pixel
        if self.beside:
            return over * self.part
        return part * self.part + over * self.pixel


def planes(axes: tuple[Axis, Axis], channels: int, last: bool, beside: bool = False) -> Planes:
    """The planes of a map whose channels come last, up to ``LANES`` of them together, or do not."""
    pixel = min(channels, LANES) if last else 1
    groups = -(-channels // pixel) if last else 1
    above, before = ((k - 1) * d // s for _, _, k, s, _, d in axes)
    # Windows that hold the pixels, and pixels that windows hold.
    lines, pitch = (
        max(n + over, (length - 1 + p) // s + 1)
        for (length, n, _, s, p, _), over in zip(axes, (above, 0 if beside else before), strict=True)
    )
    part = (lines * pitch + before) * pixel + LANES
    return Planes(axes, pixel, channels if last else 1, groups, above, before, lines, pitch, part, beside)


def are_tiles(axes: tuple[Axis, Axis]) -> bool:
    """Whether windows are 2x2 tiles, all that the map has, and rows are not short."""
    tiles = all(axis[1:] == (axis[0] // 2, 2, 2, 0, 1) for axis in axes)
    return tiles and axes[1][1] >= FEW


def entries_of(axis: Axis, adjoint: bool) -> Entries:
    """(pixel, cell) of every window along an axis, or for the adjoint (window, cell) of every pixel."""
    length, count, cells, stride, padding, dilation = axis
    starts = [o * stride - padding for o in range(count)]
    entries = tuple(
        tuple((start + i * dilation, i) for i in range(cells) if 0 <= start + i * dilation < length)
        for start in starts
    )
    return transposed(entries, length) if adjoint else entries


def scaled(entries: Entries, step: int, factor: int = 1) -> list[list[tuple[int, float]]]:
    """``entries`` with places ``step`` numbers apart, and cells times ``factor``."""
    return [[(place * step, number * factor) for place, number in several] for several in entries]


def scratch_layout(*sizes: int) -> tuple[tuple[int, ...], int]:
    """Offsets of arrays of so many bytes in scratch memory, with margins between, and bytes in all."""
    margin, at, offsets = 128, 128, []
    for size in sizes:
        offsets.append(at)
        at += aligned(size) + margin
    return tuple(offsets), at
