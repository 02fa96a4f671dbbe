"""Power means, soft means and means of draws of plain CPU tensors by compiled kernels, and gradients.

Only the input is saved: windows are summed again for gradients, which each adds to its cells. A power mean
divides out the largest u = |x| or max(x, floor) of a window, limited so that its inverse is finite.
"""

from functools import lru_cache
from math import inf, log, pi
from typing import Any

import torch
from numba import int64
from torch import Tensor

from cnnpool.pool.autograd.replayed import EXPECTED, FLOORED, POWER, SIGNED, SOFT, Mean
from cnnpool.pool.cpu.loops.lanes import LANES, load, read, select, spread, store, write
from cnnpool.pool.cpu.loops.planes import (
    cells_of,
    cut,
    fetch_run,
    fill,
    next_row,
    origin,
    paste,
    read_rows,
    write_rows,
)
from cnnpool.pool.cpu.loops.signatures import Address, Grid, Map, Number, Pair, Terms, compiled, inlined
from cnnpool.pool.cpu.loops.vector_math import absolute, exp2, log2, number, root_power
from cnnpool.pool.cpu.max import axes_of
from cnnpool.pool.cpu.memory import CPU, are_small, as_planes, empty, empty_like, scalar, table
from cnnpool.pool.cpu.runs import Axis, Cells, Plan, entries_of, planes, scaled, scratch_layout
from cnnpool.pool.cpu.threads import spread as share
from cnnpool.pool.window import Window, is_channels_last, memory_format, stated_format, wide_of

BEYOND_SINGLE = 1e39
ABSENT = -1e30 * pi
"""Stands outside the map, below any floor: maps hold the least number, and -infinity, on purpose."""
_leaves_out = lru_cache(maxsize=1024)(Window.leaves_out)
MOST = 512
"""Windows of the channels that are pooled together."""
Rule = tuple[tuple[int, ...], tuple[int, ...], Number, Number, Number, Number, Number]
"""Kind of mean and p if products give its powers, or 0, as lengths, which the compiler knows; floor (of draws
the largest number), value of no cell, bounds below and above, 0."""


@inlined
def _bounded(v: Number, low: Number, high: Number) -> Number:
    """``v`` from ``low`` to ``high``; NaN stays."""
    v = select(v < low, spread(low), v)
    return select(v > high, spread(high), v)


@inlined
def _size(v: Number, rule: Rule) -> Number:
    """The number of a cell in a mean: the value itself, if soft, bounded so that differences are finite."""
    kind, _, floor, absent, low, high, total = rule
    if len(kind) == SOFT:
        return _bounded(v, low, high)
    if len(kind) in (POWER, SIGNED):
        return absolute(v)
    if len(kind) == EXPECTED:
        return select(v < total, spread(total), v)
    return select(v == absent, spread(total), select(v < floor, spread(floor), v))


@inlined
def _weight(r: Number, p: Number, rule: Rule) -> tuple[Number, Number]:
    """(r^(p - 1), log2 r), the logarithm only if products do not give the power."""
    whole, total = rule[1], rule[6]
    if len(whole):
        # 0 times infinity is NaN.
        r = select(r > number(64, total), spread(number(64, total)), r)
        power = r
        for _ in range(len(whole) - 2):
            power = power * r
        return power, r
    # Infinity counts as 1: times infinity that is infinite for any p, and times 0 it is 0. All others are at
    # most 1, up to rounding.
    level, lowest = log2(r), number(-4096, total)
    level = select(level > total, spread(total), level)
    # 0 also where r is not a normal number: with p < 1 it would be infinitely steep.
    power = select(level < lowest, spread(total), exp2((p - number(1, total)) * level))
    return power, select(level < lowest, spread(lowest), level)


@inlined
def _window(
    image: Address, at: int, cells: Terms, row: int, column: int, kept: Address, p: Number, rule: Rule,
    like: Number,
) -> tuple[Number, Number, Number, Number]:  # fmt: skip
    """Largest value, bounded if not soft, scale, sum of weights (or of powers), and of those times values (or
    times logarithms, or of the values of draws); weights are written to ``kept`` if it is not 0. ``p`` is
    beta / log 2 for a soft mean.
    """
    kind, whole, _, _, low, high, total = rule
    begin, end, base = cells_of(cells, row, column)
    at += base
    top = load(image, at + read(cells[0], begin, int64(0)), like)
    top = top if len(kind) == SOFT else _size(top, rule)
    for e in range(begin + 1, end):
        value = load(image, at + read(cells[0], e, int64(0)), like)
        value = value if len(kind) == SOFT else _size(value, rule)
        # NaN is not looked for: it makes the sums NaN.
        top = select(value > top, value, top)
    scale, sums, more = _bounded(top, low, high), spread(total), spread(total)
    if len(kind) != SOFT:
        # NaN gives the smallest.
        top = select(top > low, scale, spread(low))
        scale = spread(number(1, total)) / top
    for e in range(begin, end):
        v = load(image, at + read(cells[0], e, int64(0)), like)
        if len(kind) == SOFT:
            v = _bounded(v, low, high)
            weight = exp2(p * (v - scale))
            sums = sums + weight
            more = more + weight * v
        else:
            r = (v if len(kind) == SIGNED else _size(v, rule)) * scale
            weight, level = _weight(r, p, rule)
            power = weight * r
            sums = sums + power
            if len(kind) == EXPECTED:
                more = more + r
            elif len(kind) == SIGNED:
                # Infinite also where infinities of both signs meet.
                more = more + absolute(r)
            elif len(whole) == 0:
                more = more + power * level
        if kept:
            store(kept, (e - begin) * LANES, weight, total)
    return top, scale, sums, more


@inlined
def _back(mean: Number, inverse: Number, rule: Rule) -> Number:
    """mean^(1/p - 1)."""
    _, whole, _, _, low, high, total = rule
    if len(whole) == 0:
        # A mean beyond is infinite; of the largest number the power might be 0, and 0 times infinity is NaN.
        level = log2(_bounded(mean, low, number(1 << 62, total)))
        return exp2((inverse - number(1, total)) * level)
    return root_power(_bounded(mean, low, high), len(whole), inverse, 3 if high > BEYOND_SINGLE else 2, total)


@inlined
def _infinite(v: Number, total: Number) -> Number:
    """Whether ``v`` is infinite, not NaN."""
    return (v == v) & ((v - v) != total)


@inlined
def _value(
    top: Number, scale: Number, sums: Number, more: Number, part: Number, inverse: Number, rule: Rule
) -> Number:
    """The mean of windows; ``part``: the share of a window's sum."""
    kind, _, floor, _, _, _, total = rule
    if len(kind) == SOFT:
        return select(_infinite(top, total) & (sums == sums), top, more / sums)
    if len(kind) == EXPECTED:
        mean = sums / select(more == total, spread(number(1, total)), more) * top
        # Rounded up, a mean of the largest numbers would be infinite.
        return select(_infinite(more, total), more, select(mean > floor, spread(floor), mean))
    mean = sums * part
    value = select(mean == total, spread(floor), mean * _back(mean, inverse, rule) * top)
    # A sum of -infinity has an infinite root, as in torch; that of another negative number is not real.
    root = select(_infinite(mean, total), absolute(mean), spread(total / total))
    return select(mean < total, root, value)


@compiled
def _forward(
    start: int, stop: int, scratch: Address, x: Address, y: Address, numbers: Address, of: Map, outputs: Map,
    grid: Grid, cells: Terms, parts: Address, held: tuple[int, ...], channels: int, rule: Rule, like: Number,
    nothing: Number,
) -> None:  # fmt: skip
    """Means of planes ``start`` to ``stop``, by the number of each of ``channels``, or of all."""
    image, means = scratch + held[0], scratch + held[1]
    (sh, sw, _, _, pitch, part), total = grid, rule[6]
    fill(image, sh * sw * part, nothing)
    for unit in range(start, stop):
        cut(x, unit, of, image, grid, like, total)
        p = spread(read(numbers, unit % channels, total))
        inverse = number(1, total) / p
        for t in range(0, outputs[0] * pitch * outputs[2], LANES):
            top, scale, sums, more = _window(image, t, cells, 0, 0, 0, p, rule, total)
            value = _value(top, scale, sums, more, load(parts, t, total), inverse, rule)
            store(means, t, value, like)
        write_rows(means, y, unit, outputs, pitch, like)


@inlined
def _factor(
    g: Number, top: Number, scale: Number, sums: Number, more: Number, part: Number, inverse: Number,
    learnt: bool, rule: Rule,
) -> tuple[Number, Number, Number]:  # fmt: skip
    """The factor of a window's weights, the mean if soft, and the derivative by p over log 2 if not."""
    kind, _, _, _, _, _, total = rule
    nothing = spread(total)
    if len(kind) == SOFT:
        endless = _infinite(top, total) & (sums == sums)
        factor = select(endless | (g == total), nothing, g / sums)
        return factor, select(endless, nothing, more / sums), nothing
    mean = sums * part
    factor = select(mean < total, spread(total / total), g * part * _back(mean, inverse, rule))
    endless = _infinite(more if len(kind) == SIGNED else mean, total)
    none, slope = (g == total) | (sums == total) | endless, nothing
    if learnt:
        level = inverse * log2(mean)
        slope = g * exp2(level) * top * inverse * (more / sums - level)
    return select(none, nothing, factor), nothing, select(none, nothing, slope)


@inlined
def _send(
    image: Address, at: int, cells: Terms, row: int, column: int, kept: Address, totals: Address, alone: bool,
    factor: Number, mean: Number, beta: Number, learnt: bool, rule: Rule, like: Number, to: Number,
) -> Number:  # fmt: skip
    """Write the gradients of windows' cells to ``totals``, or add them if windows are not ``alone`` with
    their cells; the derivative by beta, if soft.
    """
    kind, _, floor, _, low, high, total = rule
    begin, end, base = cells_of(cells, row, column)
    at += base
    nothing, slope = spread(total), spread(total)
    for e in range(begin, end):
        a = at + read(cells[0], e, int64(0))
        v, sent = load(image, a, like), factor * load(kept, (e - begin) * LANES, total)
        if len(kind) == SOFT:
            away = _bounded(v, low, high) - mean
            # Far below the mean the product may be infinite, but not where the share is 0.
            if learnt:
                slope = slope + select(sent == total, nothing, sent * away * away)
            sent = select(sent == total, nothing, sent + sent * beta * away)
        elif len(kind) == POWER:
            sent = select(v < total, -number(1, total) * sent, sent)
        elif len(kind) == FLOORED:
            sent = select(v < floor, nothing, sent)
        sent = select(factor == total, nothing, sent)
        store(totals, a, sent if alone else load(totals, a, to) + sent, to)
    return slope


@compiled
def _total(several: Number, scratch: Address, total: Number) -> Number:
    """The sum over lanes."""
    store(scratch, 0, several, total)
    for n in range(LANES):
        total += read(scratch, n, total)
    return total


@compiled
def _backward(
    start: int, stop: int, scratch: Address, x: Address, grad: Address, out: Address, slots: Address,
    numbers: Address, of: Map, outputs: Map, grid: Grid, cells: Terms, parts: Address, held: tuple[int, ...],
    channels: int, rule: Rule, log_2: Number, alone: bool, like: Number, nothing: Number,
) -> None:  # fmt: skip
    """Gradients of planes, and in ``slots``, if not 0, that of the number by plane."""
    image, totals, grads, kept = scratch + held[0], scratch + held[1], scratch + held[2], scratch + held[3]
    (sh, sw, _, _, pitch, part), total, kind, some = grid, rule[6], rule[0], held[4]
    size, count = sh * sw * part, outputs[0] * pitch * outputs[2]
    fill(image, size, nothing)
    fill(grads, some, total)
    fill(totals, size, total)
    for unit in range(start, stop):
        cut(x, unit, of, image, grid, like, total)
        if origin(unit, outputs)[1] < outputs[2]:
            fill(grads, some, total)
        read_rows(grad, unit, outputs, grads, 0, pitch, like, total)
        if not alone:
            fill(totals, size, total)
        p, slope = spread(read(numbers, unit % channels, total)), spread(total)
        inverse, beta = number(1, total) / p, p * log_2
        for t in range(0, count, LANES):
            top, scale, sums, more = _window(image, t, cells, 0, 0, kept, p, rule, total)
            g = load(grads, t, total)
            factor, mean, steep = _factor(
                g, top, scale, sums, more, load(parts, t, total), inverse, slots != 0, rule
            )
            away = _send(
                image, t, cells, 0, 0, kept, totals, alone, factor, mean, beta, slots != 0, rule, total, total
            )
            slope = slope + (away if len(kind) == SOFT else steep)
        if slots:
            write(slots, unit, _total(slope, kept, total))
        paste(totals, out, unit, of, grid, total, like)


@compiled
def _forward_last(
    start: int, stop: int, x: Address, y: Address, numbers: Address, size: Pair, out_size: Pair,
    channels: int, cells: Terms, parts: Address, _: int, rule: Rule, like: Number, nothing: Number,
) -> None:  # fmt: skip
    """Rows ``start`` to ``stop`` of all samples' means, in place."""
    (height, width), (rows, columns), total = size, out_size, rule[6]
    p = spread(read(numbers, 0, total))
    inverse = number(1, total) / p
    for line in range(start, stop):
        at, row = line // rows * height * width * channels, line % rows
        ahead, some = next_row(line, size, out_size, channels)
        for c in range(columns):
            part, out = spread(read(parts, row * columns + c, total)), (line * columns + c) * channels
            fetch_run(x, ahead + c * some, some, like)
            for k in range(0, channels, LANES):
                top, scale, sums, more = _window(x, at + k, cells, row, c, 0, p, rule, like)
                store(y, out + k, _value(top, scale, sums, more, part, inverse, rule), like)


@compiled
def _backward_last(
    start: int, stop: int, scratch: Address, x: Address, grad: Address, out: Address, slots: Address,
    numbers: Address, size: Pair, out_size: Pair, channels: int, cells: Terms, parts: Address, _: int,
    rule: Rule, log_2: Number, alone: bool, like: Number, nothing: Number,
) -> None:  # fmt: skip
    """Gradients of the pixels of the same rows, of windows that do not overlap."""
    (height, width), (rows, columns), total = size, out_size, rule[6]
    p = spread(read(numbers, 0, total))
    inverse, beta = number(1, total) / p, p * log_2
    for line in range(start, stop):
        (at, row), slope = (line // rows * height * width * channels, line % rows), spread(total)
        ahead, some = next_row(line, size, out_size, channels)
        for c in range(columns):
            part, source = spread(read(parts, row * columns + c, total)), (line * columns + c) * channels
            fetch_run(x, ahead + c * some, some, like)
            fetch_run(out, ahead + c * some, some, like)
            for k in range(0, channels, LANES):
                top, scale, sums, more = _window(x, at + k, cells, row, c, scratch, p, rule, like)
                g = load(grad, source + k, like)
                factor, mean, steep = _factor(g, top, scale, sums, more, part, inverse, slots != 0, rule)
                away = _send(
                    x, at + k, cells, row, c, scratch, out, alone, factor, mean, beta, slots != 0, rule, like,
                    like,
                )  # fmt: skip
                slope = slope + (away if len(rule[0]) == SOFT else steep)
        if slots:
            write(slots, line, _total(slope, scratch, total))


def _together(axes: tuple[Axis, Axis], channels: int) -> int:
    """How many channels are pooled as one tall plane: small planes whose windows share no pixel."""
    (height, rows, kernel, stride, padding, dilation), columns = axes[0], axes[1][1]
    if padding or rows * stride != height or (kernel - 1) * dilation >= stride:
        return 1
    return max(
        (n for n in range(2, channels + 1) if channels % n == 0 and n * rows * columns <= MOST), default=1
    )


@lru_cache(maxsize=1024)
def _plan(
    how: Mean, shape: tuple[int, ...], last: bool, alike: bool, dtype: torch.dtype, backward: bool
) -> Plan:
    """``alike``: whether all channels have the same number."""
    channels, height, width = shape
    axes, wide = axes_of(how.window, (height, width)), wide_of(torch.empty(0, dtype=dtype))
    out_size = axes[0][1], axes[1][1]
    if alike and not last:
        together = _together(axes, channels)
        channels //= together
        axes = (height * together, out_size[0] * together, *axes[0][2:]), axes[1]
    down, across = (entries_of(axis, False) for axis in axes)
    counts = torch.outer(*(table([*map(len, lists)], wide) for lists in (down, across)))
    shares = counts.reciprocal() if how.mean and how.kind != SOFT else torch.ones_like(counts)
    item, size = dtype.itemsize, wide.itemsize
    kept = how.window.cells * LANES * size
    if last and channels % LANES == 0 and not (backward and how.window.overlaps):
        cells = Cells(scaled(down, width * channels), scaled(across, channels))
        kernel: Any = _backward_last if backward else _forward_last
        where: tuple[Any, ...] = (height, width), out_size, channels, cells.pointers, shares.data_ptr()
        return Plan(kernel, out_size, len(down), kept if backward else 0, where, (cells, shares))
    plane = planes(axes, channels, last)
    cells, pixel, some = Cells(plane.cells(0), plane.cells(1)), plane.pixel, plane.windows + LANES
    parts, gap = torch.ones(some, dtype=wide, device=CPU), plane.pitch * pixel
    rows = parts[: len(down) * gap].view(len(down), gap)
    rows[:, : len(across) * pixel] = shares.repeat_interleave(pixel, 1)
    held, scratch = scratch_layout(plane.image * size, some * item)
    if backward:
        held, scratch = scratch_layout(plane.image * size, plane.image * size, some * size, kept)
        held = (*held, some)
    units = -(-channels // pixel) if last else channels
    where = plane.map, plane.outputs, plane.grid, cells.pointers, parts.data_ptr(), held
    return Plan(_backward if backward else _forward, out_size, units, scratch, where, (cells, parts))


@lru_cache(maxsize=256)
def _rule(how: Mean, power: float, dtype: torch.dtype) -> tuple[Rule, Any]:
    """The rule of kernels, and the value outside the map."""
    wide = wide_of(torch.empty(0, dtype=dtype))
    if how.kind == SOFT:
        high = torch.finfo(wide).max / 4
        numbers, nothing = (0.0, 0.0, -high, high, 0.0), -inf
    else:
        nothing = ABSENT if how.kind == FLOORED else 0.0
        smallest = torch.finfo(wide).smallest_normal
        floor = {FLOORED: how.floor, EXPECTED: torch.finfo(wide).max}.get(how.kind, 0.0)
        numbers = floor, nothing, smallest, torch.finfo(wide).max, 0.0
    whole = int(power) if how.kind != SOFT and power in (2, 3, 4) else 0
    floor_, absent, low, high_, total = (scalar(value, wide) for value in numbers)
    return ((0,) * how.kind, (0,) * whole, floor_, absent, low, high_, total), scalar(nothing, wide)


def _numbers(x: Tensor, number: Tensor | float, how: Mean) -> Tensor:
    scale = log(2) if how.kind == SOFT else 1.0
    if not isinstance(number, Tensor):
        return _one(float(number) / scale, wide_of(x))
    return number.contiguous() / scale


@lru_cache(maxsize=256)
def _one(number: float, dtype: torch.dtype) -> Tensor:
    return table([number], dtype)


def _ready(x: Tensor, numbers: Tensor) -> tuple[Tensor, bool]:
    # With a number for every channel, planes of one channel are pooled instead.
    last = (is_channels_last(x) or are_small(*x.shape[1:])) and numbers.numel() == 1
    return x.contiguous(memory_format=memory_format(last)), last


def forward(x: Tensor, number: Tensor | float, how: Mean) -> Tensor:
    """Means (N, C, H', W') of ``x`` in its memory format, by one ``number`` or one for each channel."""
    stated, numbers = stated_format(x, is_channels_last(x)), _numbers(x, number, how)
    x, last = _ready(x, numbers)
    plan = _plan(how, tuple(x.shape[1:]), last, numbers.numel() == 1, x.dtype, False)
    rule, nothing = _rule(how, 0.0 if isinstance(number, Tensor) else float(number), x.dtype)
    y = empty((*x.shape[:2], *plan.out_size), x.dtype, memory_format(last))
    where = x.data_ptr(), y.data_ptr(), numbers.data_ptr(), *plan.rest
    rest, moved = (numbers.numel(), rule, scalar(0.0, x.dtype), nothing), x.nbytes + y.nbytes
    share(plan.kernel, x.shape[0] * plan.units, moved, *where, *rest, scratch=plan.scratch)
    return as_planes(y) if last and stated is not torch.channels_last else y.contiguous(memory_format=stated)


def backward(
    grad: Tensor, x: Tensor, number: Tensor | float, how: Mean, learnt: bool
) -> tuple[Tensor, Tensor | None]:
    """Gradient of the input, and of the number if it is ``learnt``."""
    stated, numbers = stated_format(x, is_channels_last(x)), _numbers(x, number, how)
    x, last = _ready(x, numbers)
    grad = grad.contiguous(memory_format=memory_format(last))
    plan = _plan(how, tuple(x.shape[1:]), last, numbers.numel() == 1, x.dtype, True)
    rule, nothing = _rule(how, 0.0 if isinstance(number, Tensor) else float(number), x.dtype)
    out, count, units = empty_like(x), numbers.numel(), x.shape[0] * plan.units
    if plan.kernel is _backward_last and _leaves_out(how.window, *x.shape[2:]):
        out.zero_()
    slots = torch.zeros(max(units, count), dtype=wide_of(x), device=CPU) if learnt else None
    memory = x.data_ptr(), grad.data_ptr(), out.data_ptr(), 0 if slots is None else slots.data_ptr()
    numbers_rule = count, rule, scalar(log(2), wide_of(x)), not how.window.overlaps
    rest = numbers.data_ptr(), *plan.rest, *numbers_rule, scalar(0.0, x.dtype), nothing
    share(plan.kernel, units, 2 * x.nbytes + grad.nbytes, *memory, *rest, scratch=plan.scratch)
    out = out.contiguous(memory_format=stated)
    if slots is None or not isinstance(number, Tensor):
        return out, None
    slope = (slots.view(-1, count).sum(0) if count > 1 else slots.sum()).view(number.shape)
    return out, slope if how.kind == SOFT else slope * log(2)
