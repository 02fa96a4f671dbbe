"""Phases of subsampled maps on a GPU: the norm of each, and one of them taken out of a map or put back."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from cnnpool.pool.gpu.places import NUMBERS, OverLines, at, dense, empty, frame, guarded, total_of
from cnnpool.pool.window import memory_format, wide_of

# Blocks of numbers per program.
BLOCKS = 8


@triton.jit
def _magnitude(value, most):
    # NaN and infinity count as the largest number.
    return tl.where(tl.abs(value) <= most, tl.abs(value), most)


@triton.jit
def _largest(
    x, tops, size, most: tl.constexpr, wide: tl.constexpr, block: tl.constexpr, blocks: tl.constexpr
):
    part, sample = tl.program_id(1).to(tl.int64), tl.program_id(0).to(tl.int64)
    top = tl.zeros((block,), wide)
    for turn in range(blocks):
        index = (part * blocks + turn) * block + tl.arange(0, block)
        value = tl.load(x + sample * size + index, index < size, other=0.0).to(wide)
        top = tl.maximum(top, _magnitude(value, most))
    tl.store(tops + sample * tl.num_programs(1) + part, tl.max(top, 0))


@triton.jit
def _norms(
    x, tops, sums, size, scale, channels, height, width, sh: tl.constexpr, sw: tl.constexpr,
    squared: tl.constexpr, last: tl.constexpr, most: tl.constexpr, wide: tl.constexpr,
    block: tl.constexpr, blocks: tl.constexpr,
):  # fmt: skip
    part, sample = tl.program_id(1).to(tl.int64), tl.program_id(0).to(tl.int64)
    top = tl.load(tops + sample)
    top = tl.where(top == 0, 1.0, top)
    for phase in tl.static_range(sh * sw):
        total = tl.zeros((block,), tl.int64)
        for turn in range(blocks):
            index = (part * blocks + turn) * block + tl.arange(0, block)
            value = tl.load(x + sample * size + index, index < size, other=0.0).to(wide)
            # In float32 Triton's own division may be wrong in the last bit or two.
            bounded = _magnitude(value, most)
            share = bounded / top if wide == tl.float64 else tl.div_rn(bounded, top)
            share = share * share if squared else share
            pixel = index // channels if last else index
            here = pixel // width % height % sh * sw + pixel % width % sw == phase
            # The sum of whole numbers does not depend on their order.
            total += tl.where(here, (share * scale).to(tl.int64), 0)
        place = (sample * (sh * sw) + phase) * tl.num_programs(1) + part
        tl.store(sums + place, tl.sum(total, 0))


@triton.jit
def _take(
    x, y, phases, channels, height, width, rows, columns, count, extent,
    sh: tl.constexpr, sw: tl.constexpr,
    last: tl.constexpr, wide: tl.constexpr, down: tl.constexpr, across: tl.constexpr, big: tl.constexpr,
):  # fmt: skip
    plane, r, c, along, real = frame(count, extent, rows, columns, last, down, across, big)
    sample = plane if last else plane // channels
    phase = tl.load(phases + sample, real, other=0).to(tl.int32)
    real = real & (phase >= 0) & (phase < sh * sw)
    source = at(plane, r * sh + phase // sw, c * sw + phase % sw, along, height, width, channels, last)
    target = at(plane, r, c, along, rows, columns, channels, last)
    tl.store(y + target, tl.load(x + source, real, other=0.0), real)


@triton.jit
def _put(
    y, out, phases, channels, height, width, rows, columns, count, extent,
    sh: tl.constexpr, sw: tl.constexpr,
    last: tl.constexpr, wide: tl.constexpr, down: tl.constexpr, across: tl.constexpr, big: tl.constexpr,
):  # fmt: skip
    plane, h, w, along, real = frame(count, extent, height, width, last, down, across, big)
    sample = plane if last else plane // channels
    phase = tl.load(phases + sample, real, other=0).to(tl.int32)
    taken = real & (h % sh * sw + w % sw == phase)
    source = at(plane, h // sh, w // sw, along, rows, columns, channels, last)
    target = at(plane, h, w, along, height, width, channels, last)
    tl.store(out + target, tl.load(y + source, taken, other=0.0), real)


_take, _put = OverLines(_take), OverLines(_put)


def norms(x: Tensor, stride: tuple[int, int], scale: float, squared: bool) -> Tensor:
    """As on the CPU: (N, P) int64 of complete maps (N, C, H, W)."""
    x, last = dense(x)
    samples, size = x.shape[0], x.shape[1:].numel()
    parts, dtype = triton.cdiv(size, NUMBERS * BLOCKS), wide_of(x)
    tops = torch.empty((samples, parts), dtype=dtype, device=x.device)
    sums = torch.empty((samples, stride[0] * stride[1], parts), dtype=torch.int64, device=x.device)
    constants = {
        "most": torch.finfo(dtype).max,
        "wide": total_of(x),
        "block": NUMBERS,
        "blocks": BLOCKS,
        "enable_fp_fusion": True,
    }
    if not samples:
        return sums.sum(2)
    with guarded(x):
        _largest[(samples, parts)](x, tops, size, **constants)
        tops, how = tops.amax(1), {"sh": stride[0], "sw": stride[1], "squared": squared, "last": last}
        _norms[(samples, parts)](x, tops, sums, size, scale, *x.shape[1:], **how, **constants)
    return sums.sum(2)


def take(x: Tensor, phase: Tensor, stride: tuple[int, int], last: bool) -> Tensor:
    """The phase of each sample (N,), int64, of complete maps (N, C, H, W)."""
    x = x.contiguous(memory_format=memory_format(last))
    y = empty(x, (x.shape[2] // stride[0], x.shape[3] // stride[1]), x.dtype, last)
    if y.numel():
        sizes = *x.shape[1:], *y.shape[2:]
        _take(y.shape, last, (x, y, phase.contiguous()), sizes, stride)
    return y


def put(y: Tensor, phase: Tensor, stride: tuple[int, int], last: bool) -> Tensor:
    """The transpose of ``take``: the taken pixels among zeros."""
    y = y.contiguous(memory_format=memory_format(last))
    out = empty(y, (y.shape[2] * stride[0], y.shape[3] * stride[1]), y.dtype, last)
    if out.numel():
        sizes = *out.shape[1:], *y.shape[2:]
        _put(out.shape, last, (y, out, phase.contiguous()), sizes, stride)
    return out
