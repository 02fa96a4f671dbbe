"""Weighted sums of 2x2 tiles and their adjoints: the averages that nearly every network has."""

from cnnpool.pool.cpu.loops.intrinsics import load, narrow, store, widen
from cnnpool.pool.cpu.loops.signatures import Address, Number, Pair, compiled


@compiled
def forward(
    start: int, stop: int, x: Address, y: Address, size: Pair, out_size: Pair, weight: Number, like: Number
) -> None:
    """Contiguous maps, planes ``start`` to ``stop``."""
    (height, width), (rows, columns) = size, out_size
    for plane in range(start, stop):
        for row in range(rows):
            upper, out = (plane * height + 2 * row) * width, (plane * rows + row) * columns
            lower = upper + width
            for c in range(columns):
                total = widen(load(x, upper + 2 * c, like)) + widen(load(x, upper + 2 * c + 1, like))
                more = widen(load(x, lower + 2 * c, like)) + widen(load(x, lower + 2 * c + 1, like))
                store(y, out + c, narrow((total + more) * weight, like))


@compiled
def adjoint(
    start: int, stop: int, grad: Address, out: Address, size: Pair, out_size: Pair, weight: Number,
    like: Number,
) -> None:  # fmt: skip
    """Contiguous maps, planes ``start`` to ``stop``."""
    (height, width), (rows, columns) = size, out_size
    nothing = narrow(weight - weight, like)
    for plane in range(start, stop):
        for row in range(height):
            source, target = (plane * rows + row // 2) * columns, (plane * height + row) * width
            if row >= 2 * rows:
                for c in range(width):
                    store(out, target + c, nothing)
            else:
                for c in range(columns):
                    share = narrow(widen(load(grad, source + c, like)) * weight, like)
                    store(out, target + 2 * c, share)
                    store(out, target + 2 * c + 1, share)
                if width > 2 * columns:
                    store(out, target + width - 1, nothing)


@compiled
def forward_last(
    start: int, stop: int, x: Address, y: Address, size: Pair, out_size: Pair, channels: int, weight: Number,
    like: Number,
) -> None:  # fmt: skip
    """Channels-last maps, rows ``start`` to ``stop`` of all samples' outputs."""
    (height, width), (rows, columns) = size, out_size
    for line in range(start, stop):
        sample, row = line // rows, line % rows
        for c in range(columns):
            upper = ((sample * height + 2 * row) * width + 2 * c) * channels
            lower, out = upper + width * channels, (line * columns + c) * channels
            for k in range(channels):
                total = widen(load(x, upper + k, like)) + widen(load(x, upper + channels + k, like))
                more = widen(load(x, lower + k, like)) + widen(load(x, lower + channels + k, like))
                store(y, out + k, narrow((total + more) * weight, like))


@compiled
def adjoint_last(
    start: int, stop: int, grad: Address, out: Address, size: Pair, out_size: Pair, channels: int,
    weight: Number, like: Number,
) -> None:  # fmt: skip
    """Channels-last maps, rows ``start`` to ``stop`` of all samples' inputs."""
    (height, width), (rows, columns) = size, out_size
    nothing = narrow(weight - weight, like)
    for line in range(start, stop):
        sample, row = line // height, line % height
        source, target = (sample * rows + row // 2) * columns * channels, line * width * channels
        for _ in range(columns if row < 2 * rows else 0):
            for k in range(channels):
                share = narrow(widen(load(grad, source + k, like)) * weight, like)
                store(out, target + k, share)
                store(out, target + channels + k, share)
            source, target = source + channels, target + 2 * channels
        for k in range(target, (line + 1) * width * channels):
            store(out, k, nothing)
