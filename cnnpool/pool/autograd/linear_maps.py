"""Averages and blurs as linear maps, axis by axis: nothing is saved for backward."""

from collections.abc import Iterator
from math import comb
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from cnnpool.pool.autograd.transforms import LinearMap
from cnnpool.pool.dispatch import kernels
from cnnpool.pool.edges import PaddingMode, pad, source
from cnnpool.pool.window import Window, ceil_div, memory_format, wide

Entries = tuple[tuple[tuple[int, float], ...], ...]
"""The inputs that each output along an axis sums, as (place, weight)."""


class Counting(NamedTuple):
    """The divisor of a window's sum in an average."""

    include_pad: bool
    override: int | None


class Averaging(NamedTuple):
    """Means of the windows of a map of one size."""

    window: Window
    counting: Counting
    size: tuple[int, int]
    channels_last: bool

    @property
    def output_size(self) -> tuple[int, int]:
        """Windows down and across."""
        return self.window.output_size(*self.size)

    def cells(self, axis: int) -> list[range]:
        """The pixels of every window along an axis, 0 for rows and 1 for columns."""
        length, k = self.size[axis], self.window.kernel[axis]
        return [range(max(0, start), min(length, start + k)) for start in self._starts(axis)]

    def counts(self, axis: int) -> list[int]:
        """Number of counted cells of each window along an axis, including padding if it counts."""
        length, k = self.size[axis], self.window.kernel[axis]
        outer = self.window.padding[axis] if self.counting.include_pad else 0
        return [min(start + k, length + outer) - max(start, -outer) for start in self._starts(axis)]

    def entries(self, axis: int) -> Entries:
        """The sums along an axis, each pixel weighted by the inverse of the counted cells."""
        divisors = self.counts(axis)
        if self.counting.override:
            divisors = [1 if axis else self.counting.override] * len(divisors)
        windows = zip(self.cells(axis), divisors, strict=True)
        return tuple(tuple((i, 1 / divisor) for i in cells) for cells, divisor in windows)

    def _starts(self, axis: int) -> list[int]:
        stride, padding = self.window.stride[axis], self.window.padding[axis]
        return [o * stride - padding for o in range(self.output_size[axis])]


class Blurring(NamedTuple):
    """Binomial blur and subsampling of a map of one size."""

    filter_size: tuple[int, int]
    stride: tuple[int, int]
    padding_mode: PaddingMode
    size: tuple[int, int]
    channels_last: bool

    @property
    def cells(self) -> int:
        """Taps of the two-dimensional filter."""
        return self.filter_size[0] * self.filter_size[1]

    @property
    def output_size(self) -> tuple[int, int]:
        """One output for every ``stride``-th pixel, the first included: ceil(H/s)."""
        (height, width), (sh, sw) = self.size, self.stride
        return ceil_div(height, sh), ceil_div(width, sw)

    def window(self, axis: int) -> tuple[tuple[int, float], ...]:
        """(offset from stride * output, weight) of every tap along an axis, 0 for rows and 1 for columns."""
        m = self.filter_size[axis]
        return tuple((k - (m - 1) // 2, weight) for k, weight in enumerate(taps(m)))

    def entries(self, axis: int) -> Entries:
        """The weighted sums along an axis; near the edges one sum may contain a pixel several times."""
        length, stride, outputs = self.size[axis], self.stride[axis], []
        for o in range(self.output_size[axis]):
            met = [(source(o * stride + k, length, self.padding_mode), w) for k, w in self.window(axis)]
            outputs.append(tuple((pixel, weight) for pixel, weight in met if pixel is not None))
        return tuple(outputs)


def taps(filter_size: int) -> list[float]:
    """Row ``filter_size`` - 1 of Pascal's triangle, over its sum 2^(filter_size - 1)."""
    return [comb(filter_size - 1, k) / 2 ** (filter_size - 1) for k in range(filter_size)]


def transposed(entries: Entries, length: int) -> Entries:
    """The sums of the transposed map, which has ``length`` outputs and computes the gradient."""
    sums: list[list[tuple[int, float]]] = [[] for _ in range(length)]
    for output, several in enumerate(entries):
        for place, weight in several:
            sums[place].append((output, weight))
    return tuple(map(tuple, sums))


def _means(x: Tensor, averaging: Averaging) -> Tensor:
    window, counting = averaging[:2]
    y: Tensor
    if kernel := kernels("linear", x, cells=window.cells):
        y = kernel.average(x, averaging, False)
    else:
        y = F.avg_pool2d(x, *window[:3], window.ceil_mode, *counting)
    return y


def _means_adjoint(grad: Tensor, averaging: Averaging) -> Tensor:
    window, counting, size, channels_last = averaging
    out: Tensor
    if kernel := kernels("linear", grad, cells=window.cells):
        out = kernel.average(grad, averaging, True)
        return out
    # Summed in float32 and rounded once, where an input belongs to several windows.
    exact = wide(grad) if window.overlaps else grad
    height, width = size
    if window.ceil_mode:
        # Enlarge the map until no window overhangs: torch's compiler computes wrong counts otherwise.
        exact = exact / _counts(exact, window, counting, size)
        counting = Counting(True, 1)
        _, right, _, bottom = window.pads(height, width)
        height += max(0, bottom - window.padding[0])
        width += max(0, right - window.padding[1])
    layout = memory_format(channels_last)
    like = torch.empty(
        (*grad.shape[:2], height, width), dtype=exact.dtype, device=exact.device, memory_format=layout
    )
    out = torch.ops.aten.avg_pool2d_backward(exact, like, *window[:3], False, *counting)
    if (height, width) != size:
        # A negative padding crops to a fresh tensor: batched gradients cannot pass through a full slice.
        out = F.pad(out, (0, size[1] - width, 0, size[0] - height))
    return out.to(grad.dtype)


MEANS = LinearMap(_means, _means_adjoint)


def summed(x: Tensor, window: Window, divisor: int) -> Tensor:
    """Sums divided by ``divisor``, as means times the number of cells: ONNX has no other divisor."""
    means = F.avg_pool2d(x, *window[:3], window.ceil_mode)
    whole = Counting(True, None)
    counts = _counts(means, window, whole, (x.shape[-2], x.shape[-1])) if window.ceil_mode else window.cells
    return means * (counts / divisor)


def _counts(like: Tensor, window: Window, counting: Counting, size: tuple[int, int]) -> Tensor | int:
    if counting.override is not None:
        return counting.override
    sides: list[Tensor] = []
    for length, k, s, p in zip(size, *window[:3], strict=True):
        start = torch.arange(like.shape[-2 + len(sides)], device=like.device) * s - p
        outer = p if counting.include_pad else 0
        sides.append((start + k).clamp(max=length + outer) - start.clamp(min=-outer))
    return sides[0][:, None] * sides[1]


class Move(NamedTuple):
    """Outputs that get ``weight`` times the inputs."""

    weight: float
    outputs: slice
    inputs: slice


def _moves(blurring: Blurring, axis: int) -> Iterator[Move]:
    """The filter along one axis, tap by tap, so that all outputs sum in one order, the middle one first."""
    length, filter_size, stride = blurring.size[axis], blurring.filter_size[axis], blurring.stride[axis]
    count, before = ceil_div(length, stride), (filter_size - 1) // 2
    middle_first = sorted(range(filter_size), key=lambda k: k != before)
    for offset, weight in ((k - before, taps(filter_size)[k]) for k in middle_first):
        first = min(count, max(0, -(offset // stride)))
        end = max(first, min(count, (length - 1 - offset) // stride + 1))
        if first < end:
            start = first * stride + offset
            inside = slice(start, start + (end - first - 1) * stride + 1, stride)
            yield Move(weight, slice(first, end), inside)
        for i in [*range(first), *range(end, count)]:
            pixel = source(i * stride + offset, length, blurring.padding_mode)
            if pixel is not None:
                yield Move(weight, slice(i, i + 1), slice(pixel, pixel + 1))


def _blurred(x: Tensor, blurring: Blurring) -> Tensor:
    y: Tensor
    if kernel := kernels("linear", x, cells=blurring.cells):
        y = kernel.blur(x, blurring, False)
        return y
    y = wide(x)
    for axis in (0, 1):
        whole, *rest = _moves(blurring, axis)
        total = _part(y, axis, whole.inputs) * whole.weight
        for move in rest:
            _part(total, axis, move.outputs).add_(_part(y, axis, move.inputs), alpha=move.weight)
        y = total
    return y.to(x.dtype).contiguous(memory_format=memory_format(blurring.channels_last))


def traced(x: Tensor, filter_size: tuple[int, int], stride: tuple[int, int], mode: PaddingMode) -> Tensor:
    """A blur in plain operations, which compile to one graph for maps of any size."""
    y = _padded(x, filter_size, mode)
    for axis in (0, 1):
        count = ceil_div(x.shape[axis + 2], stride[axis])
        parts = [
            weight * _part(y, axis, slice(k, k + (count - 1) * stride[axis] + 1, stride[axis]))
            for k, weight in enumerate(taps(filter_size[axis]))
        ]
        y = sum(parts[1:], parts[0])
    return y.to(x.dtype)


def convolved(x: Tensor, filter_size: tuple[int, int], stride: tuple[int, int], mode: PaddingMode) -> Tensor:
    """A blur as padding and a depthwise convolution, which other runtimes support."""
    y = _padded(x, filter_size, mode)
    down, across = (y.new_tensor(taps(m)) for m in filter_size)
    channels = x.shape[1]
    weight = torch.outer(down, across).expand(channels, 1, *filter_size)
    return F.conv2d(y, weight, stride=stride, groups=channels).to(x.dtype)


def _blurred_adjoint(grad: Tensor, blurring: Blurring) -> Tensor:
    x: Tensor
    if kernel := kernels("linear", grad, cells=blurring.cells):
        x = kernel.blur(grad, blurring, True)
        return x
    x = wide(grad)
    for axis in (1, 0):
        samples, channels, *size = x.shape
        size[axis] = blurring.size[axis]
        if blurring.channels_last:
            total = x.new_zeros((samples, *size, channels)).permute(0, 3, 1, 2)
        else:
            total = x.new_zeros((samples, channels, *size))
        for move in _moves(blurring, axis):
            _part(total, axis, move.inputs).add_(_part(x, axis, move.outputs), alpha=move.weight)
        x = total
    return x.to(grad.dtype)


def _padded(x: Tensor, filter_size: tuple[int, int], mode: PaddingMode) -> Tensor:
    down, across = (((m - 1) // 2, m // 2) for m in filter_size)
    return pad(wide(x), (*across, *down), mode)


def _part(x: Tensor, axis: int, part: slice) -> Tensor:
    # A single slicing operation, which supports batched gradients.
    sliced: Tensor = torch.ops.aten.slice(x, axis - 2, part.start, part.stop, part.step or 1)
    return sliced


BLUR = LinearMap(_blurred, _blurred_adjoint)
