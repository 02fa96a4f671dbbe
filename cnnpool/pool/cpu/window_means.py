"""Power means and soft means of plain CPU tensors by compiled kernels."""

from functools import lru_cache
from math import inf, log
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cnnpool.pool.autograd.kernels import POWER, SOFT, Mean
from cnnpool.pool.cpu import means_2x2
from cnnpool.pool.cpu.band_plan import Frame, in_format_of, make_ready
from cnnpool.pool.cpu.loops import power, softmax
from cnnpool.pool.cpu.memory import CPU, empty_like, scalar, table
from cnnpool.pool.cpu.threads import spread
from cnnpool.pool.window import Window, is_channels_last, wide_of


def _lanes(x: Tensor, parameter: Tensor) -> bool:
    # With one number per channel, the pixels of each channel are processed together instead.
    return is_channels_last(x) and parameter.numel() == 1


def _flat(parameter: Tensor | float, wide: torch.dtype) -> Tensor:
    if isinstance(parameter, Tensor):
        return parameter if parameter.is_contiguous() else parameter.contiguous()
    return _number(parameter, wide)


@lru_cache(maxsize=256)
def _number(value: float, wide: torch.dtype) -> Tensor:
    return table([value], wide)


def _slots(frame: Frame, wanted: bool, wide: torch.dtype) -> Tensor | None:
    return torch.zeros(frame.units or frame.room[0][6], dtype=wide, device=CPU) if wanted else None


def _per_parameter(slots: Tensor, samples: int, parameter: Tensor) -> Tensor:
    # Slots are by sample, channel and band; with one number they are all summed.
    count = parameter.numel()
    if count > 1:
        slots = slots.view(max(samples, 1), count, -1).sum((0, 2))
    elif slots.numel() > 1:
        slots = slots.sum()
    return slots.view(parameter.shape)


class Cell(NamedTuple):
    """The value of a cell in power means: |x|, or max(x, ``floor``)."""

    floor: float | None

    def numbers(self, dtype: torch.dtype, wide: torch.dtype) -> tuple[Any, ...]:
        values = (0.0,) if self.floor is None else (self.floor, self.nothing(dtype))
        return tuple(scalar(value, wide) for value in values)

    def nothing(self, dtype: torch.dtype) -> float:
        return 0.0 if self.floor is None else torch.finfo(dtype).min


@lru_cache(maxsize=256)
def _shares(window: Window, size: tuple[int, int], mean: bool, wide: torch.dtype) -> tuple[Tensor, bool]:
    """The factor of each window's sum, (H', W'), and whether all are equal."""
    axes = []
    for length, count, k, s, p in zip(size, window.output_size(*size), *window[:3], strict=True):
        starts = torch.arange(count, device=CPU) * s - p
        axes.append((starts + k).clamp(max=length) - starts.clamp(min=0))
    counts = axes[0][:, None] * axes[1]
    counts = counts if mean else torch.ones_like(counts)
    return counts.to(wide).reciprocal(), bool((counts == counts[0, 0]).all())


@lru_cache(maxsize=256)
def _limits(wide: torch.dtype) -> tuple[Any, ...]:
    smallest = torch.finfo(wide).smallest_normal
    return scalar(smallest, wide), scalar(1 / smallest, wide)


@lru_cache(maxsize=256)
def _of_cells(
    p: float | None, cell: Cell, mean: bool, dtype: torch.dtype, wide: torch.dtype
) -> tuple[Any, ...]:
    """Arguments of power kernels: value of a cell, range of scales, share of a tile, a whole p."""
    whole = (0,) * int(p) if p in (2, 3, 4) else None
    return cell.numbers(dtype, wide), _limits(wide), scalar(0.25 if mean else 1.0, wide), whole


class Arithmetic(NamedTuple):
    """The computation of one kind of mean: its kernels, their numbers and rule, and the needs of bands."""

    kernels: Any
    numbers: Tensor
    rule: tuple[Any, ...]
    nothing: float
    """The value outside the map."""
    shared: bool
    """Whether a window's sum is multiplied by a share of its own."""
    forward: tuple[int, int, int]
    backward: tuple[int, int]
    """Stretches, results and kept cells, as arguments of ``Map.frame``."""


def _arithmetic(x: Tensor, number: Tensor | float, how: Mean) -> Arithmetic:
    wide = wide_of(x)
    if how.kind == SOFT:
        is_tensor = isinstance(number, Tensor)
        slopes = _flat(number, wide) / log(2) if is_tensor else _number(float(number) / log(2), wide)
        rule = scalar(torch.finfo(wide).max / 4, wide), scalar(log(2), wide)
        return Arithmetic(softmax, slopes, rule, -inf, False, (3, 2, 1), (5, 4))
    cell = Cell(None if how.kind == POWER else how.floor)
    rule = _of_cells(None if isinstance(number, Tensor) else number, cell, how.mean, x.dtype, wide)
    return Arithmetic(power, _flat(number, wide), rule, cell.nothing(x.dtype), True, (4, 1, 1), (6, 4))


def forward(x: Tensor, number: Tensor | float, how: Mean) -> Tensor:
    """Means (N, C, H', W') of ``x`` in its memory format, by one ``number`` or one for each channel."""
    way, window = _arithmetic(x, number, how), how.window
    numbers, rule = way.numbers, way.rule
    plan = means_2x2.plan(x, window, numbers.numel())
    if plan is not None:
        return means_2x2.forward(plan, x, numbers, rule)
    ready = make_ready(x, window, _lanes(x, numbers))
    shares, even = _shares(window, tuple(x.shape[2:]), how.mean, ready.wide) if way.shared else (None, True)
    frame = ready.frame(numbers.numel(), even, False, *way.forward)
    y = ready.output(frame.out_size, x.dtype)
    factors = () if shares is None else (shares.data_ptr(),)
    where = ready.x.data_ptr(), y.data_ptr(), *factors, numbers.data_ptr()
    rest = frame.rule, frame.room, *rule, *ready.types(way.nothing)
    spread(way.kernels.forward, frame.units, x.nbytes + y.nbytes, *where, *rest, scratch=frame.scratch)
    return in_format_of(x, y)


def backward(
    grad: Tensor, x: Tensor, number: Tensor | float, how: Mean, learnt: bool
) -> tuple[Tensor, Tensor | None]:
    """Gradient of the input, and of the number if it is ``learnt``."""
    way, window = _arithmetic(x, number, how), how.window
    numbers, rule = way.numbers, way.rule
    plan = means_2x2.plan(x, window, numbers.numel())
    if plan is not None:
        out, slots = means_2x2.backward(plan, grad, x, numbers, rule, learnt)
    else:
        ready = make_ready(x, window, _lanes(x, numbers))
        size = tuple(x.shape[2:])
        shares, even = _shares(window, size, how.mean, ready.wide) if way.shared else (None, True)
        frame = ready.frame(numbers.numel(), even, True, *way.backward, window.cells)
        out, slots = empty_like(ready.x), _slots(frame, learnt, ready.wide)
        grad = grad.contiguous(memory_format=frame.layout)
        factors = () if shares is None else (shares.data_ptr(),)
        sums = None if slots is None else slots.data_ptr()
        where = ready.x.data_ptr(), grad.data_ptr(), out.data_ptr(), sums, *factors, numbers.data_ptr()
        rest = frame.rule, frame.room, *rule, *ready.types(way.nothing)
        moved = 2 * x.nbytes + grad.nbytes
        spread(way.kernels.backward, frame.units, moved, *where, *rest, scratch=frame.scratch)
        out = in_format_of(x, out)
    if slots is None or not isinstance(number, Tensor):
        return out, None
    slope = _per_parameter(slots, x.shape[0], number)
    return out, slope * log(2) if way.shared else slope
