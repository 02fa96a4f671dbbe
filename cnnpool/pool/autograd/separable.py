"""Averages and blurs, which sum along one axis, then along the other; they save nothing for backward."""

from math import comb
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from cnnpool.pool.autograd.linear import LinearMap
from cnnpool.pool.dispatch import kernels
from cnnpool.pool.edges import PaddingMode, pad, source
from cnnpool.pool.window import Window, ceil_div, laid_out, memory_format, wide

Entries = tuple[tuple[tuple[int, float], ...], ...]
"""The inputs that each output along an axis sums, as (place, weight)."""


class Side(NamedTuple):
    """A separable map along one axis: output o sums ``weights`` times the pixels from o stride - padding on.

    ``divisors`` are those of the outputs, or none.
    """

    length: int
    outputs: int
    weights: tuple[float, ...]
    stride: int
    padding: int
    mode: PaddingMode = "zeros"
    divisors: tuple[int, ...] = ()

    def entries(self) -> Entries:
        """The weighted sums; near the edges one may contain a pixel several times."""
        sums = []
        for o, divisor in enumerate(self.divisors or (1,) * self.outputs):
            start = o * self.stride - self.padding
            met = [(source(start + k, self.length, self.mode), w) for k, w in enumerate(self.weights)]
            sums.append(tuple((pixel, w / divisor) for pixel, w in met if pixel is not None))
        return tuple(sums)

    def adjoint_entries(self) -> Entries:
        """The sums of the transposed map, which computes the gradient."""
        return transposed(self.entries(), self.length)

    def border(self) -> list[tuple[int, int]]:
        """The places past the edges that are copies of pixels, each with its pixel."""
        end = (self.outputs - 1) * self.stride - self.padding + len(self.weights)
        outside = [*range(-self.padding, 0), *range(self.length, end)]
        copied = [(place, source(place, self.length, self.mode)) for place in outside]
        return [(place, pixel) for place, pixel in copied if pixel is not None]


def transposed(entries: Entries, length: int) -> Entries:
    """The sums of the transposed map, which has ``length`` outputs."""
    sums: list[list[tuple[int, float]]] = [[] for _ in range(length)]
    for output, several in enumerate(entries):
        for place, weight in several:
            sums[place].append((output, weight))
    return tuple(map(tuple, sums))


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
    def cells(self) -> int:
        return self.window.cells

    @property
    def output_size(self) -> tuple[int, int]:
        """Windows down and across."""
        return self.window.output_size(*self.size)

    def side(self, axis: int) -> Side:
        """The sums along an axis, 0 for rows and 1 for columns."""
        length, outputs = self.size[axis], self.output_size[axis]
        k, stride, padding = (pair[axis] for pair in self.window[:3])
        outer = padding if self.counting.include_pad else 0
        starts = range(-padding, outputs * stride - padding, stride)
        divisors = [min(start + k, length + outer) - max(start, -outer) for start in starts]
        if self.counting.override:
            divisors = [1 if axis else self.counting.override] * outputs
        return Side(length, outputs, (1.0,) * k, stride, padding, divisors=tuple(divisors))

    def plain(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(x, *self.window[:3], self.window.ceil_mode, *self.counting)

    def plain_adjoint(self, grad: Tensor) -> Tensor:
        window, counting, size, channels_last = self
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
        out: Tensor = torch.ops.aten.avg_pool2d_backward(exact, like, *window[:3], False, *counting)
        if (height, width) != size:
            # A negative padding crops to a fresh tensor: batched gradients cannot pass through a full slice.
            out = F.pad(out, (0, size[1] - width, 0, size[0] - height))
        return out.to(grad.dtype)


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

    def side(self, axis: int) -> Side:
        """The sums along an axis, 0 for rows and 1 for columns."""
        m, stride, mode = self.filter_size[axis], self.stride[axis], self.padding_mode
        return Side(self.size[axis], self.output_size[axis], tuple(taps(m)), stride, (m - 1) // 2, mode)

    def plain(self, x: Tensor) -> Tensor:
        return traced(x, self.filter_size, self.stride, self.padding_mode)

    def plain_adjoint(self, grad: Tensor) -> Tensor:
        x = wide(grad)
        for axis in (1, 0):
            x = _spread(x, axis, self.side(axis), self.channels_last)
        return laid_out(x.to(grad.dtype), self.channels_last)


def _spread(x: Tensor, axis: int, side: Side, channels_last: bool) -> Tensor:
    """The transpose of the sums along an axis: a pixel gets the gradients of the outputs that summed it."""
    samples, channels, *size = x.shape
    size[axis] = side.padding + side.length + len(side.weights)
    if channels_last:
        total = x.new_zeros((samples, *size, channels)).permute(0, 3, 1, 2)
    else:
        total = x.new_zeros((samples, channels, *size))
    for k, weight in enumerate(side.weights):
        _part(total, axis, k, side.stride, side.outputs).add_(x, alpha=weight)
    for place, pixel in side.border():
        copied = _part(total, axis, side.padding + place)
        _part(total, axis, side.padding + pixel).add_(copied)
    return _part(total, axis, side.padding, count=side.length)


def _part(x: Tensor, axis: int, start: int, stride: int = 1, count: int = 1) -> Tensor:
    """A single slicing operation, which supports batched gradients."""
    part: Tensor = torch.ops.aten.slice(x, axis + 2, start, start + (count - 1) * stride + 1, stride)
    return part


Separable = Averaging | Blurring


def _pooled(x: Tensor, how: Separable) -> Tensor:
    kernel = kernels("linear", x, cells=how.cells)
    y: Tensor = how.plain(x) if kernel is None else kernel.pool(x, how, False)
    return y


def _pooled_back(grad: Tensor, how: Separable) -> Tensor:
    kernel = kernels("linear", grad, cells=how.cells)
    x: Tensor = how.plain_adjoint(grad) if kernel is None else kernel.pool(grad, how, True)
    return x


SEPARABLE = LinearMap(_pooled, _pooled_back)


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


def taps(filter_size: int) -> list[float]:
    """Row ``filter_size`` - 1 of Pascal's triangle, over its sum 2^(filter_size - 1)."""
    return [comb(filter_size - 1, k) / 2 ** (filter_size - 1) for k in range(filter_size)]


def traced(x: Tensor, filter_size: tuple[int, int], stride: tuple[int, int], mode: PaddingMode) -> Tensor:
    """A blur in plain operations, which compile to one graph for maps of any size."""
    y = _padded(x, filter_size, mode)
    for axis in (0, 1):
        step, count = stride[axis], ceil_div(x.shape[axis + 2], stride[axis])
        first, *others = taps(filter_size[axis])
        total = first * _part(y, axis, 0, step, count)
        for k, weight in enumerate(others, 1):
            total.add_(_part(y, axis, k, step, count), alpha=weight)
        y = total
    return y.to(x.dtype)


def convolved(x: Tensor, filter_size: tuple[int, int], stride: tuple[int, int], mode: PaddingMode) -> Tensor:
    """A blur as padding and a depthwise convolution, which other runtimes support."""
    y = _padded(x, filter_size, mode)
    down, across = (y.new_tensor(taps(m)) for m in filter_size)
    channels = x.shape[1]
    weight = torch.outer(down, across).expand(channels, 1, *filter_size)
    return F.conv2d(y, weight, stride=stride, groups=channels).to(x.dtype)


def _padded(x: Tensor, filter_size: tuple[int, int], mode: PaddingMode) -> Tensor:
    down, across = (((m - 1) // 2, m // 2) for m in filter_size)
    return pad(wide(x), (*across, *down), mode)
