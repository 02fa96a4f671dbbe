"""Power means, soft means and draws of plain CPU tensors by compiled kernels."""

from functools import lru_cache
from math import inf, log
from typing import NamedTuple

import torch
from torch import Tensor

from cnnpool.pool.cpu import means_2x2
from cnnpool.pool.cpu.band_plan import Frame, in_format_of, make_ready
from cnnpool.pool.cpu.loops import multinomial, power, softmax
from cnnpool.pool.cpu.max import scalar
from cnnpool.pool.cpu.threads import spread
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
    return torch.tensor([value], dtype=wide)


def _slots(frame: Frame, wanted: bool, wide: torch.dtype) -> Tensor | None:
    return torch.zeros(frame.units or frame.room[0][6], dtype=wide) if wanted else None


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

    def numbers(self, dtype: torch.dtype, wide: torch.dtype) -> tuple:
        values = (0.0,) if self.floor is None else (self.floor, self.nothing(dtype))
        return tuple(scalar(value, wide) for value in values)

    def nothing(self, dtype: torch.dtype) -> float:
        return 0.0 if self.floor is None else torch.finfo(dtype).min


@lru_cache(maxsize=256)
def _shares(window: Window, size: tuple[int, int], mean: bool, wide: torch.dtype) -> tuple[Tensor, bool]:
    """What the sum of each window is multiplied by, (H', W'), and whether that is one number."""
    axes = []
    for length, count, k, s, p in zip(size, window.output_size(*size), *window[:3], strict=True):
        starts = torch.arange(count) * s - p
        axes.append((starts + k).clamp(max=length) - starts.clamp(min=0))
    counts = axes[0][:, None] * axes[1] if mean else torch.ones(len(axes[0]), len(axes[1]))
    return counts.to(wide).reciprocal(), bool((counts == counts[0, 0]).all())


@lru_cache(maxsize=256)
def _limits(wide: torch.dtype) -> tuple:
    smallest = torch.finfo(wide).smallest_normal
    return scalar(smallest, wide), scalar(1 / smallest, wide)


@lru_cache(maxsize=256)
def _of_cells(p: float | None, cell: Cell, mean: bool, dtype: torch.dtype, wide: torch.dtype) -> tuple:
    """What power kernels take: how cells are read, the range of scales, the share of a tile, a whole p."""
    whole = (0,) * int(p) if p in (2, 3, 4) else None
    return cell.numbers(dtype, wide), _limits(wide), scalar(0.25 if mean else 1.0, wide), whole


def _power(x: Tensor, p: Tensor | float, cell: Cell, mean: bool) -> tuple[Tensor, tuple]:
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    return _flat(p, wide), _of_cells(None if isinstance(p, Tensor) else p, cell, mean, x.dtype, wide)


def power_forward(x: Tensor, p: Tensor | float, window: Window, cell: Cell, mean: bool) -> Tensor:
    """(sum or mean u^p)^(1/p) of every window of ``x`` (N, C, H, W), in its memory format."""
    powers, rule = _power(x, p, cell, mean)
    plan = means_2x2.plan(x, window, powers.numel())
    if plan is not None:
        return means_2x2.forward(plan, x, powers, rule)
    ready = make_ready(x, window, _lanes(x, powers))
    shares, even = _shares(window, tuple(x.shape[2:]), mean, ready.wide)
    frame = ready.frame(powers.numel(), even, False, 4, 1, 1)
    y = ready.output(frame.out_size, x.dtype)
    where = ready.x.data_ptr(), y.data_ptr(), shares.data_ptr(), powers.data_ptr()
    rest = frame.rule, frame.room, *rule, *ready.types(cell.nothing(x.dtype))
    spread(power.forward, frame.units, x.nbytes + y.nbytes, *where, *rest, scratch=frame.scratch)
    return in_format_of(x, y)


def power_backward(
    grad: Tensor, x: Tensor, p: Tensor | float, window: Window, cell: Cell, mean: bool, learnt: bool
) -> tuple[Tensor, Tensor | None]:
    """Gradients of ``x`` and, if it is ``learnt``, of ``p``."""
    powers, rule = _power(x, p, cell, mean)
    plan = means_2x2.plan(x, window, powers.numel())
    if plan is not None:
        out, slots = means_2x2.backward(plan, grad, x, powers, rule, learnt)
    else:
        ready = make_ready(x, window, _lanes(x, powers))
        shares, even = _shares(window, tuple(x.shape[2:]), mean, ready.wide)
        frame = ready.frame(powers.numel(), even, True, 6, 4, window.cells)
        out, slots = torch.empty_like(ready.x), _slots(frame, learnt, ready.wide)
        grad = grad.contiguous(memory_format=frame.layout)
        where = ready.x.data_ptr(), grad.data_ptr(), out.data_ptr(), _address(slots), shares.data_ptr()
        rest = powers.data_ptr(), frame.rule, frame.room, *rule, *ready.types(cell.nothing(x.dtype))
        spread(power.backward, frame.units, 2 * x.nbytes + grad.nbytes, *where, *rest, scratch=frame.scratch)
        out = in_format_of(x, out)
    return out, None if slots is None else _per_parameter(slots, x.shape[0], p) * log(2)


def _soft(x: Tensor, beta: Tensor | float) -> tuple[Tensor, tuple]:
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    slopes = _flat(beta, wide) / log(2) if isinstance(beta, Tensor) else _number(beta / log(2), wide)
    return slopes, (scalar(torch.finfo(wide).max / 4, wide), scalar(log(2), wide))


def soft_forward(x: Tensor, beta: Tensor | float, window: Window) -> Tensor:
    """Means of every window of ``x`` (N, C, H, W) weighted by softmax(beta x), in its memory format."""
    slopes, rule = _soft(x, beta)
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


def soft_backward(
    grad: Tensor, x: Tensor, beta: Tensor | float, window: Window, learnt: bool
) -> tuple[Tensor, Tensor | None]:
    """Gradients of ``x`` and, if it is ``learnt``, of ``beta``."""
    slopes, rule = _soft(x, beta)
    plan = means_2x2.plan(x, window, slopes.numel())
    if plan is not None:
        out, slots = means_2x2.backward(plan, grad, x, slopes, rule, learnt)
    else:
        ready = make_ready(x, window, _lanes(x, slopes))
        frame = ready.frame(slopes.numel(), True, True, 5, 4, window.cells)
        out, slots = torch.empty_like(ready.x), _slots(frame, learnt, ready.wide)
        grad = grad.contiguous(memory_format=frame.layout)
        where = ready.x.data_ptr(), grad.data_ptr(), out.data_ptr(), _address(slots), slopes.data_ptr()
        rest = frame.rule, frame.room, *rule, *ready.types(-inf)
        spread(
            softmax.backward, frame.units, 2 * x.nbytes + grad.nbytes, *where, *rest, scratch=frame.scratch
        )
        out = in_format_of(x, out)
    return out, None if slots is None else _per_parameter(slots, x.shape[0], beta)


def _address(slots: Tensor | None) -> int | None:
    return None if slots is None else slots.data_ptr()


def drawn(x: Tensor, uniforms: Tensor, window: Window) -> tuple[Tensor, Tensor, bool, bool]:
    """Draws by ``uniforms`` in [0, 1), the winners (255: none), whether all is finite, and all have one."""
    ready = make_ready(x, window, is_channels_last(x))
    frame = ready.frame(1, True, False, 4, 2, window.cells)
    y, winners = ready.output(frame.out_size, x.dtype), ready.output(frame.out_size, torch.uint8)
    uniforms, flags = uniforms.contiguous(memory_format=frame.layout), torch.zeros(2, dtype=torch.int64)
    where = ready.x.data_ptr(), y.data_ptr(), winners.data_ptr(), uniforms.data_ptr(), flags.data_ptr()
    rest = frame.rule, frame.room, scalar(torch.finfo(ready.wide).max, ready.wide), *ready.types(-inf)
    spread(multinomial.forward, frame.units, x.nbytes + y.nbytes, *where, *rest, scratch=frame.scratch)
    endless, lost = flags.tolist()
    return in_format_of(x, y), in_format_of(x, winners), not endless, not lost


def expected(x: Tensor, window: Window) -> Tensor:
    """What draws are on average: sum x^2 / sum x over what is positive."""
    ready = make_ready(x, window, is_channels_last(x))
    frame = ready.frame(1, True, False, 2, 1, 1)
    y = ready.output(frame.out_size, x.dtype)
    rest = frame.rule, frame.room, scalar(torch.finfo(ready.wide).max, ready.wide), *ready.types(-inf)
    where = ready.x.data_ptr(), y.data_ptr()
    spread(multinomial.mean, frame.units, x.nbytes + y.nbytes, *where, *rest, scratch=frame.scratch)
    return in_format_of(x, y)
