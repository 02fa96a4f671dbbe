"""Phases of subsampled maps: the norm of each, and one of them taken out of a map or put back."""

from typing import Any

from numba import int64, types

from cnnpool.pool.cpu.loops.intrinsics import load, load_aliased, store, store_aliased, widen
from cnnpool.pool.cpu.loops.signatures import Address, Number, Pair, compiled, intrinsic

WHOLE: dict[Any, tuple[Any, int, int]] = {
    types.float32: (types.int32, 0x7FFFFFFF, 0x7F7FFFFF),
    types.float64: (types.int64, (1 << 63) - 1, 0x7FEFFFFFFFFFFFFF),
}


@intrinsic
def magnitude(typing: Any, value: Any) -> Any:
    """The bits of ``value`` without sign; NaN and infinity give those of the largest finite number."""
    whole, mask, most = WHOLE[value]

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = context.get_value_type(whole)
        size = builder.and_(builder.bitcast(args[0], kind), kind(mask))
        return builder.select(builder.icmp_signed(">", size, kind(most)), kind(most), size)

    return whole(value), generate


@intrinsic
def number(typing: Any, bits: Any, like: Any) -> Any:
    """The number with these ``bits``."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(like))

    return like(bits, like), generate


@compiled
def _largest(x: Address, at: int, count: int, total: Number, like: Number) -> Number:
    most = magnitude(total)
    for t in range(at, at + count):
        most = max(most, magnitude(widen(load(x, t, like))))
    return number(most, total)


@compiled
def norms(
    start: int, stop: int, scratch: Address, x: Address, out: Address, rows: int, width: int, pixel: int,
    stride: Pair, scale: Number, squared: bool, total: Number, like: Number,
) -> None:  # fmt: skip
    """For samples of ``rows`` rows of ``width`` pixels of ``pixel`` numbers, the sum of every phase, of
    magnitudes or squares times ``scale``, in whole numbers, so that the order of additions does not matter.
    """
    sh, sw = stride
    stretch, kinds = width * pixel, sh * sw
    for sample in range(start, stop):
        first = sample * rows * stretch
        largest = _largest(x, first, rows * stretch, total, like)
        largest = largest if largest > total else scale
        for t in range(sh * stretch):
            store_aliased(scratch, t, int64(0))
        for row in range(rows):
            at, into = first + row * stretch, row % sh * stretch
            for t in range(stretch):
                part = number(magnitude(widen(load(x, at + t, like))), total) / largest
                part = part * part if squared else part
                whole = load_aliased(scratch, into + t, int64(0)) + int64(part * scale)
                store_aliased(scratch, into + t, whole)
        for phase in range(kinds):
            whole = int64(0)
            for w in range(phase % sw, width, sw):
                for t in range(w * pixel, (w + 1) * pixel):
                    whole += load_aliased(scratch, phase // sw * stretch + t, int64(0))
            store_aliased(out, sample * kinds + phase, whole)


@compiled
def take(
    start: int, stop: int, x: Address, y: Address, phases: Address, channels: int, size: Pair, stride: Pair,
    like: Number,
) -> None:  # fmt: skip
    """Contiguous maps, planes ``start`` to ``stop``: the pixels of each sample's phase."""
    (height, width), (sh, sw) = size, stride
    rows, columns = height // sh, width // sw
    for plane in range(start, stop):
        phase = load(phases, plane // channels, int64(0))
        for row in range(rows):
            at = (plane * height + row * sh + phase // sw) * width + phase % sw
            out = (plane * rows + row) * columns
            if sw == 2:
                for c in range(columns):
                    store(y, out + c, load(x, at + 2 * c, like))
            else:
                for c in range(columns):
                    store(y, out + c, load(x, at + c * sw, like))


@compiled
def put(
    start: int, stop: int, x: Address, y: Address, phases: Address, channels: int, size: Pair, stride: Pair,
    like: Number,
) -> None:  # fmt: skip
    """Contiguous maps, planes ``start`` to ``stop``: the pixels of ``take`` put back among zeros."""
    (height, width), (sh, sw) = size, stride
    rows, columns = height // sh, width // sw
    for plane in range(start, stop):
        phase = load(phases, plane // channels, int64(0))
        for h in range(height):
            source, target = (plane * rows + h // sh) * columns, (plane * height + h) * width
            if h % sh != phase // sw:
                for w in range(width):
                    store(y, target + w, like)
            elif sw == 2:
                left = phase % 2 == 0
                for c in range(columns):
                    value = load(x, source + c, like)
                    store(y, target + 2 * c, value if left else like)
                    store(y, target + 2 * c + 1, like if left else value)
            else:
                for c in range(columns):
                    for j in range(sw):
                        value = load(x, source + c, like)
                        store(y, target + c * sw + j, value if j == phase % sw else like)


@compiled
def take_last(
    start: int, stop: int, x: Address, y: Address, phases: Address, channels: int, size: Pair, stride: Pair,
    like: Number,
) -> None:  # fmt: skip
    """Channels-last maps, rows ``start`` to ``stop`` of all samples' outputs."""
    (height, width), (sh, sw) = size, stride
    rows, columns = height // sh, width // sw
    for line in range(start, stop):
        sample, row = line // rows, line % rows
        phase = load(phases, sample, int64(0))
        at = ((sample * height + row * sh + phase // sw) * width + phase % sw) * channels
        for c in range(columns):
            for k in range(channels):
                store(y, (line * columns + c) * channels + k, load(x, at + c * sw * channels + k, like))


@compiled
def put_last(
    start: int, stop: int, x: Address, y: Address, phases: Address, channels: int, size: Pair, stride: Pair,
    like: Number,
) -> None:  # fmt: skip
    """Channels-last maps, rows ``start`` to ``stop`` of all samples' inputs."""
    (height, width), (sh, sw) = size, stride
    rows, columns = height // sh, width // sw
    for line in range(start, stop):
        sample, h = line // height, line % height
        phase, target = load(phases, sample, int64(0)), line * width * channels
        for t in range(width * channels if h % sh != phase // sw else 0):
            store(y, target + t, like)
        for c in range(columns if h % sh == phase // sw else 0):
            source = ((sample * rows + h // sh) * columns + c) * channels
            for j in range(sw):
                for k in range(channels):
                    value = load(x, source + k, like)
                    store(y, target + (c * sw + j) * channels + k, value if j == phase % sw else like)
