"""Linear maps that kernels compute axis by axis, as weighted sums along each axis."""

from math import comb
from typing import NamedTuple

from cnnpool.pool.edges import PaddingMode, source
from cnnpool.pool.window import Window, ceil_div

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
