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
from cnnpool.pool.precision import wide_of
from cnnpool.pool.window import Window, is_channels_last


def _lanes(x: Tensor, parameter: Tensor) -> bool:
    # A number for every channel: then a channel's pixels are worked at together.
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
    # By sample, channel and band; of one number all.
    count = parameter.numel()
    if count > 1:
        slots = slots.view(max(samples, 1), count, -1).sum((0, 2))
    elif slots.numel() > 1:
        slots = slots.sum()
    return slots.view(parameter.shape)


class Cell(NamedTuple):
    """How power means read a cell: as |x|, or as max(x, ``floor``)."""

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
    """Arguments of power kernels: how cells are read, the range of scales, a tile's share, a whole p."""
    whole = (0,) * int(p) if p in (2, 3, 4) else None
    return cell.numbers(dtype, wide), _limits(wide), scalar(0.25 if mean else 1.0, wide), whole


def forward(x: Tensor, number: Tensor | float, how: Mean) -> Tensor:
    """Means (N, C, H', W') of ``x`` in its memory format, by one ``number`` or one for each channel."""
    return _soft_forward(x, number, how) if how.kind == SOFT else _power_forward(x, number, how)


def backward(
    grad: Tensor, x: Tensor, number: Tensor | float, how: Mean, learnt: bool
) -> tuple[Tensor, Tensor | None]:
    """Gradient of the input, and of the number if it is ``learnt``."""
    find = _soft_backward if how.kind == SOFT else _power_backward
    return find(grad, x, number, how, learnt)


def _power(x: Tensor, p: Tensor | float, how: Mean) -> tuple[Tensor, tuple[Any, ...], Cell]:
    wide, cell = wide_of(x), Cell(None if how.kind == POWER else how.floor)
    whole = None if isinstance(p, Tensor) else p
    return _flat(p, wide), _of_cells(whole, cell, how.mean, x.dtype, wide), cell


def _power_forward(x: Tensor, p: Tensor | float, how: Mean) -> Tensor:
    (powers, rule, cell), window = _power(x, p, how), how.window
    plan = means_2x2.plan(x, window, powers.numel())
    if plan is not None:
        return means_2x2.forward(plan, x, powers, rule)
    ready = make_ready(x, window, _lanes(x, powers))
    shares, even = _shares(window, tuple(x.shape[2:]), how.mean, ready.wide)
    frame = ready.frame(powers.numel(), even, False, 4, 1, 1)
    y = ready.output(frame.out_size, x.dtype)
    where = ready.x.data_ptr(), y.data_ptr(), shares.data_ptr(), powers.data_ptr()
    rest = frame.rule, frame.room, *rule, *ready.types(cell.nothing(x.dtype))
    spread(power.forward, frame.units, x.nbytes + y.nbytes, *where, *rest, scratch=frame.scratch)
    return in_format_of(x, y)


def _power_backward(
    grad: Tensor, x: Tensor, p: Tensor | float, how: Mean, learnt: bool
) -> tuple[Tensor, Tensor | None]:
    (powers, rule, cell), window = _power(x, p, how), how.window
    plan = means_2x2.plan(x, window, powers.numel())
    if plan is not None:
        out, slots = means_2x2.backward(plan, grad, x, powers, rule, learnt)
    else:
        ready = make_ready(x, window, _lanes(x, powers))
        shares, even = _shares(window, tuple(x.shape[2:]), how.mean, ready.wide)
        frame = ready.frame(powers.numel(), even, True, 6, 4, window.cells)
        out, slots = empty_like(ready.x), _slots(frame, learnt, ready.wide)
        grad = grad.contiguous(memory_format=frame.layout)
        where = ready.x.data_ptr(), grad.data_ptr(), out.data_ptr(), _address(slots), shares.data_ptr()
        rest = powers.data_ptr(), frame.rule, frame.room, *rule, *ready.types(cell.nothing(x.dtype))
        spread(power.backward, frame.units, 2 * x.nbytes + grad.nbytes, *where, *rest, scratch=frame.scratch)
        out = in_format_of(x, out)
    if slots is None or not isinstance(p, Tensor):
        return out, None
    return out, _per_parameter(slots, x.shape[0], p) * log(2)


def _soft(x: Tensor, beta: Tensor | float) -> tuple[Tensor, tuple[Any, ...]]:
    wide = wide_of(x)
    slopes = _flat(beta, wide) / log(2) if isinstance(beta, Tensor) else _number(beta / log(2), wide)
    return slopes, (scalar(torch.finfo(wide).max / 4, wide), scalar(log(2), wide))


def _soft_forward(x: Tensor, beta: Tensor | float, how: Mean) -> Tensor:
    (slopes, rule), window = _soft(x, beta), how.window
    plan = means_2x2.plan(x, window, slopes.numel())
    if plan is not None:
        return means_2x2.forward(plan, x, slopes, rule)
    ready = make_ready(x, window, _lanes(x, slopes))
    frame = ready.frame(slopes.numel(), True, False, 3, 2, 1)
    y = ready.output(frame.out_size, x.dtype)
    where = ready.x.data_ptr(), y.data_ptr(), slopes.data_ptr()
    rest = frame.rule, frame.room, *rule, *ready.types(-inf)
    spread(softmax.forward, frame.units, x.nbytes + y.nbytes, *where, *rest, scratch=frame.scratch)
    return in_format_of(x, y)


def _soft_backward(
    grad: Tensor, x: Tensor, beta: Tensor | float, how: Mean, learnt: bool
) -> tuple[Tensor, Tensor | None]:
    (slopes, rule), window = _soft(x, beta), how.window
    plan = means_2x2.plan(x, window, slopes.numel())
    if plan is not None:
        out, slots = means_2x2.backward(plan, grad, x, slopes, rule, learnt)
    else:
        ready = make_ready(x, window, _lanes(x, slopes))
        frame = ready.frame(slopes.numel(), True, True, 5, 4, window.cells)
        out, slots = empty_like(ready.x), _slots(frame, learnt, ready.wide)
        grad = grad.contiguous(memory_format=frame.layout)
        where = ready.x.data_ptr(), grad.data_ptr(), out.data_ptr(), _address(slots), slopes.data_ptr()
        rest = frame.rule, frame.room, *rule, *ready.types(-inf)
        spread(
            softmax.backward, frame.units, 2 * x.nbytes + grad.nbytes, *where, *rest, scratch=frame.scratch
        )
        out = in_format_of(x, out)
    if slots is None or not isinstance(beta, Tensor):
        return out, None
    return out, _per_parameter(slots, x.shape[0], beta)


def _address(slots: Tensor | None) -> int | None:
    return None if slots is None else slots.data_ptr()
