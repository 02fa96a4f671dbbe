"""Addresses of a program's numbers: a block of lines of a map, and numbers along each line.

A line is contiguous in memory: a row of a contiguous map, a pixel's channels of a channels-last one. The
indices of rows and columns are thus computed once per line, or once along it, not for every number.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from cnnpool.pool.window import is_channels_last, memory_format, stated_format

# Numbers per program, and the most of them along a line.
NUMBERS, ALONG = 1024, 128
# One number per thread in rows that are pooled from longer ones: with several, the windows of neighbouring
# threads would be several strides apart, and a read would use little of the memory it touches.
THREADS = 128
# Largest number of cached launches of a kernel, one for each kind of map.
MOST_KINDS = 1000


@triton.jit
def frame(
    count, extent, rows, columns, last: tl.constexpr, down: tl.constexpr, across: tl.constexpr,
    big: tl.constexpr,
):  # fmt: skip
    """(plane, row, column, place along the line, whether it exists) of every number of this program; a plane
    is a sample's channel, or with channels last a sample.
    """
    line = tl.program_id(0)
    if big:
        line = line.to(tl.int64)
    line = line * down + tl.arange(0, down)[:, None]
    along = tl.program_id(1) * across + tl.arange(0, across)[None, :]
    real = (line < count) & (along < extent)
    # A single return: code after a return is compiled too.
    if last:
        column, over = line % columns, line // columns
    else:
        column, over = along, line
    return over // rows, over % rows, column, along, real


@triton.jit
def at(plane, row, column, along, rows, columns, channels, last: tl.constexpr):
    """The offset in memory of a number of a map."""
    place = (plane * rows + row) * columns + column
    return place * channels + along if last else place


@triton.jit
def cell_of(
    plane, row, column, along, real, i, j, rows, columns, channels,
    sh: tl.constexpr, sw: tl.constexpr, ph: tl.constexpr, pw: tl.constexpr, last: tl.constexpr,
):  # fmt: skip
    """The offset in memory of the cell (i, j) of every window, and whether it is in the map."""
    h, w = row * sh - ph + i, column * sw - pw + j
    inside = real & (h >= 0) & (h < rows) & (w >= 0) & (w < columns)
    return at(plane, h, w, along, rows, columns, channels, last), inside


@triton.jit
def channel_of(plane, along, channels, last: tl.constexpr):
    """The channel of every number."""
    return along if last else plane % channels


class OverLines:
    """A function compiled by ``triton.jit`` that runs over the lines of a map.

    Its parameters are tensors, then sizes, then ``count`` and ``extent``, the lines and their length, then
    constants, and finally ``last, wide, down, across, big``. Its launch is prepared once per kind of map:
    Triton would take longer to prepare it than the work on a small map takes.
    """

    def __init__(self, kernel: Any):
        self.kernel = kernel
        self._started: dict[tuple[Any, ...], tuple[Any, tuple[Any, ...]]] = {}

    def __call__(
        self,
        shape: Sequence[int],
        last: bool,
        tensors: Sequence[Tensor],
        sizes: tuple[int, ...],
        constants: tuple[int, ...] = (),
    ) -> None:
        """Run over the lines of a map (N, C, H, W), computed from the first of ``tensors``."""
        with guarded(tensors[0]):
            kinds = [(t.dtype, t.data_ptr() % 16) for t in tensors]
            key = (*kinds, *shape, last, tensors[0].get_device(), sizes, constants)
            started = self._started.get(key)
            if started is not None:
                run, rest = started
                run(*tensors, *rest)
                return
            grid, rest = self._plan(shape, last, tensors, sizes, constants)
            # The default; some versions warn unless it is given.
            compiled = self.kernel[grid](*tensors, *rest, enable_fp_fusion=True)
            # Triton's interpreter compiles nothing.
            if compiled is not None:
                if len(self._started) == MOST_KINDS:
                    self._started.clear()
                self._started[key] = compiled[grid], rest

    def _plan(
        self,
        shape: Sequence[int],
        last: bool,
        tensors: Sequence[Tensor],
        sizes: tuple[int, ...],
        constants: tuple[int, ...],
    ) -> tuple[tuple[int, int, int], tuple[Any, ...]]:
        samples, channels, rows, columns = shape
        count, extent = (samples * rows * columns, channels) if last else (samples * channels * rows, columns)
        numbers = THREADS if not last and tensors[0].shape[-1] > columns else NUMBERS
        across = min(triton.next_power_of_2(extent), ALONG)
        down = numbers // across
        # 32-bit indices would overflow on the largest maps.
        big = max(t.numel() for t in tensors) + NUMBERS * down >= 1 << 31
        grid = triton.cdiv(count, down), triton.cdiv(extent, across), 1
        return grid, (*sizes, count, extent, *constants, last, total_of(tensors[0]), down, across, big)


def guarded(x: Tensor) -> AbstractContextManager[object]:
    """Within this context kernels run on the device of ``x``."""
    if not x.is_cuda or x.get_device() == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(x.device)


def total_of(x: Tensor) -> tl.dtype:
    """The dtype of sums of ``x``."""
    return tl.float64 if x.dtype == torch.float64 else tl.float32


def dense(x: Tensor) -> tuple[Tensor, bool]:
    """``x`` without gaps, and whether its channels come last."""
    last = is_channels_last(x)
    return x.contiguous(memory_format=memory_format(last)), last


def empty(x: Tensor, size: tuple[int, int], dtype: torch.dtype, last: bool | None = None) -> Tensor:
    """An uninitialised map of another size in the memory format of ``x``, or the one given."""
    layout = stated_format(x, is_channels_last(x)) if last is None else memory_format(last)
    return torch.empty((*x.shape[:2], *size), dtype=dtype, device=x.device, memory_format=layout)
