"""Polyphase sampling, which chooses one of the s x s phases of a map or mixes them, and the way back."""

import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Unpack

import torch
from annotated_types import Predicate, doc
from torch import Tensor
from torch.nn import functional as F

from cnnpool.bounds import is_norm
from cnnpool.pool.autograd.phases import blocks, checked_phase, complete, sample_phase
from cnnpool.pool.autograd.winners import Ties
from cnnpool.pool.base import CellPool2d, Place, Size, Taps, both, check_choice
from cnnpool.pool.blur import blur_pool2d
from cnnpool.pool.dispatch import kernels
from cnnpool.pool.edges import pad
from cnnpool.pool.fourier import full_precision
from cnnpool.pool.internals import is_exported
from cnnpool.pool.leaves import one_node
from cnnpool.pool.max import MaxPool2d
from cnnpool.pool.window import IntPair, ceil_div, check_batch, is_channels_last, laid_out, pair, wide

Choose = Literal["max", "min"]
Order = Annotated[float, Predicate(is_norm), doc("1, 2 or inf")]


@one_node
def aps_pool2d(
    x: Tensor,
    stride: IntPair = 2,
    *,
    p: float = 2.0,
    choose: Choose = "max",
    filter_size: IntPair = 1,
    phase: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Keep the phase of largest norm among the s x s subsampled maps (Chaman & Dokmanic 2021, APS).

    Norms are summed in whole numbers, so they do not depend on the order of summation: a circular shift of
    the map chooses the same pixels, and the output is the same to the last bit, up to a circular shift.
    Phases of equal norm that are not shifts of each other are the exception.

    Args:
        x: (N, C, H, W), any floating dtype; a size that the stride does not divide is first padded
            circularly.
        stride: >= 1, or (vertical, horizontal).
        p: order of the norm: 1, 2 or inf.
        choose: the phase of largest (max) or smallest (min) norm; ties go to the first in row-major order.
        filter_size: taps of a circular binomial blur of the output; the phase is chosen without it.
        phase: (N,), phases to sample instead, such as those of the main path in a residual branch; one out of
            range is an IndexError on the CPU, and gives zeros on a GPU.

    Returns:
        (N, C, ceil(H/s), ceil(W/s)), same dtype as ``x``, and the phase of each sample, (N,) int64: i*sw + j
        for x[i::sh, j::sw].

    Example:
        >>> x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> aps_pool2d(x)
        (tensor([[[[4.]]]]), tensor([3]))
        >>> aps_pool2d(x.roll(1, dims=-1))
        (tensor([[[[4.]]]]), tensor([2]))
    """
    check_batch(x, "aps_pool2d")
    steps = pair(stride, "stride", least=1)
    taps = pair(filter_size, "filter_size", least=1)
    check_choice("choose", choose, Choose)
    if p not in (1, 2, math.inf):
        raise ValueError(f"p must be 1, 2 or inf, got {p!r}")
    if phase is None:
        phase = _strongest(wide(complete(x, steps)), steps, p, choose)
    return sample_phase(x, phase, steps, taps), phase


def _strongest(x: Tensor, stride: tuple[int, int], p: float, choose: Choose) -> Tensor:
    norms = _norms(x.detach(), stride, p).flatten(1)
    return norms.argmax(1) if choose == "max" else norms.argmin(1)


def _norms(x: Tensor, stride: tuple[int, int], p: float) -> Tensor:
    # Floating sums would differ in the last bits from shift to shift; whole numbers add up in any order.
    # The scale is the largest that cannot overflow.
    count = math.prod(x.shape[1:]) // (stride[0] * stride[1])
    if torch.compiler.is_compiling() or is_exported():
        # The same power of 2, for a count that may be a symbol.
        scale: Any = torch.exp2(
            61 - torch.full((), count, dtype=torch.float64, device=x.device).log2().floor()
        )
    else:
        scale = 2.0 ** (62 - count.bit_length())
    if p != math.inf and (kernel := kernels("phases", x, cells=stride[0] * stride[1])):
        norms: Tensor = kernel.norms(x, stride, scale, p == 2)
        return norms
    # NaN and infinity count as the largest number, so that they win wherever they are.
    size = x.abs().nan_to_num(nan=torch.finfo(x.dtype).max)
    if p == math.inf:
        return blocks(size, stride).amax((1, 2, 4))
    largest = size.amax((1, 2, 3), keepdim=True)
    size = size / torch.where(largest == 0, 1.0, largest)
    size = size.square() if p == 2 else size
    return blocks((size * scale).long().sum(1, keepdim=True), stride).sum((1, 2, 4))


class PolyphasePool2d(CellPool2d):
    """An operator that chooses one of the s x s phases of a map per sample, or mixes them.

    ``forward(x, phase=None)``: a residual branch must sample the phase of the main path, so a model may call
    ``choose`` once and pass its result to both, or set ``keep_phase`` and read the latest from ``phase``,
    which copies do not have.

    Args:
        filter_size: taps of a circular binomial blur of the output, >= 1; the phase is chosen without it.
    """

    keep_phase: bool = False
    phase: Tensor | None = None

    def __init__(self, channels: int, stride: Size, filter_size: Taps, **place: Unpack[Place]):
        super().__init__(channels, stride=stride, **place)
        self.filter_size = both(filter_size)

    def __getstate__(self) -> dict[str, Any]:
        # A phase that was learnt holds a graph, which torch cannot copy.
        return {name: value for name, value in self.__dict__.items() if name != "phase"}

    def decide(self, x: Tensor) -> Tensor:
        """The phases of a complete map in float32 or float64, in the format of ``sample_phase``."""
        raise NotImplementedError

    def choose(self, x: Tensor) -> Tensor:
        """The phase of each sample of ``x``, computed in float32 or wider, under autocast too."""
        with full_precision(x):
            return self.decide(complete(wide(x), self.stride))

    def pixels(self, height: int, width: int) -> int:
        """Pixels of the complete map."""
        rows, columns = self.output_size(height, width)
        return rows * self.stride[0] * columns * self.stride[1]

    def forward(self, x: Tensor, phase: Tensor | None = None) -> Tensor:
        check_batch(x, type(self).__name__)
        phase = self.choose(x) if phase is None else phase
        if self.keep_phase:
            self.phase = phase
        return sample_phase(x, phase, self.stride, self.filter_size)


class ApsPool2d(PolyphasePool2d):
    """Keep the subsampled map of largest norm among the s x s (Chaman & Dokmanic 2021), by ``aps_pool2d``.

    All channels of a sample share one phase, so that circular shifts of the input shift the output exactly.
    The gradient goes only to the chosen pixels, 1/s^2 of all (with a blur, to their neighbours too).

    Departs from the authors' code, which chooses after the blur: with 3 taps another phase of 4 images in 10
    of rectified noise.

    Edges: H' = ceil(H/s); a size that the stride does not divide is first padded circularly, and shifts then
    no longer commute exactly. Equal norms: the first phase in row-major order.

    Args:
        p: order of the norm: 1, 2 or inf.
        choose: the phase of largest (max) or smallest (min) norm.
    """

    formula = "x_k, k = argmax_k ||x_k||_p over the s x s phases x_k"
    paper = "Chaman & Dokmanic 2021, arXiv:2011.14214"
    shift = "equivariant to every circular shift, up to a shift of the output"
    gradient = "sparse"

    def __init__(
        self,
        channels: int,
        *,
        stride: Size = 2,
        p: Order = 2.0,
        choose: Choose = "max",
        filter_size: Taps = 1,
        **place: Unpack[Place],
    ):
        super().__init__(channels, stride, filter_size, **place)
        self.p, self.by = p, choose

    def decide(self, x: Tensor) -> Tensor:
        return _strongest(x, self.stride, self.p, self.by)

    def flops(self, height: int, width: int) -> int:
        taps = sum(2 * m - 1 for m in self.filter_size if m > 1)
        return self.channels * self.pixels(height, width) * (2 + taps)


class MaxApsPool2d(ApsPool2d):
    """Dense maximum, then the phase of largest norm among its s x s phases, as APS was published.

    Chaman & Dokmanic (2021) put APS in place of the subsampling of a max pooling; ``aps`` subsamples the map
    itself. The window wraps around, so that circular shifts of the input shift the output exactly. The
    gradient goes to the winners of the chosen phase (with a blur, of its neighbours too).

    Edges: as ``aps``. A window reaches to the right and to the bottom.

    Args:
        kernel_size: window of the maximum, >= 1, or (vertical, horizontal).
    """

    formula = "m_k, k = argmax_k ||m_k||_p over the s x s phases m_k of the dense maximum m"
    paper = "Chaman & Dokmanic 2021, arXiv:2011.14214"
    shift = "equivariant to every circular shift, up to a shift of the output"
    gradient = "sparse"

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Size = 2,
        stride: Size = 2,
        p: Order = 2.0,
        choose: Choose = "max",
        filter_size: Taps = 1,
        ties: Ties = "first",
        **place: Unpack[Place],
    ):
        super().__init__(channels, stride=stride, p=p, choose=choose, filter_size=filter_size, **place)
        self.max = MaxPool2d(channels, kernel_size=both(kernel_size), stride=1, padding=0, ties=ties)

    def choose(self, x: Tensor) -> Tensor:
        return super().choose(self.dense(x))

    def forward(self, x: Tensor, phase: Tensor | None = None) -> Tensor:
        check_batch(x, type(self).__name__)
        dense = self.dense(x)
        return super().forward(dense, super().choose(dense) if phase is None else phase)

    def dense(self, x: Tensor) -> Tensor:
        """The maximum of the window that begins at each pixel."""
        down, across = self.max.kernel_size
        y: Tensor = self.max(pad(x, (0, across - 1, 0, down - 1), "circular"))
        return y

    def flops(self, height: int, width: int) -> int:
        down, across = self.max.kernel_size
        return self.max.flops(height + down - 1, width + across - 1) + super().flops(height, width)


@one_node
def polyphase_unpool2d(
    x: Tensor,
    phase: Tensor,
    stride: IntPair = 2,
    *,
    filter_size: IntPair = 1,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Put a map back on the pixels that ``aps`` or ``lps`` took, among zeros (Chaman & Dokmanic 2021, APS-U).

    y[i sh + p, j sw + q] = x[i, j] for phase p sw + q. Paired with the sampling that chose the phase, a
    circular shift of the larger map shifts the result by as much, while x alone moves by a fraction of it or
    not at all. So a network of circular convolutions and such pairs commutes with every circular shift, as
    long as the strides divide its sizes (arXiv:2105.04040).

    Args:
        x: (N, C, H', W'), any floating dtype, which the result keeps with its memory format.
        phase: result of the paired operator's ``choose``: whole numbers, (N,), one out of range an IndexError
            on the CPU; or weights, floating, (N, P) or (N, P, C), by which each phase gets its share, as
            ``lps`` mixes phases in training.
        stride: of the sampling, >= 1, or (vertical, horizontal).
        filter_size: taps of a circular binomial blur afterwards, which fills the zeros; the result is scaled
            by the product of the strides, so that a constant map stays constant.
        output_size: (H, W), ceil(H/s) = H'; None for s H', s W'.

    Example:
        >>> y, phase = aps_pool2d(torch.tensor([[[[1.0, 2.0], [4.0, 3.0]]]]))
        >>> polyphase_unpool2d(y, phase)
        tensor([[[[0., 0.],
                  [4., 0.]]]])
    """
    check_batch(x, "polyphase_unpool2d")
    steps, taps = pair(stride, "stride", least=1), pair(filter_size, "filter_size", least=1)
    (height, width), count = x.shape[-2:], math.prod(steps)
    size = tuple(output_size or (height * steps[0], width * steps[1]))
    if len(size) != 2 or tuple(map(ceil_div, size, steps)) != (height, width):
        raise ValueError(f"output_size={size} is not of a {height}x{width} map at stride={steps}")
    phase = checked_phase(x, phase, count)
    cells = x[:, :, :, None, :, None]
    if phase.is_floating_point():
        weights = phase.to(x.dtype).reshape(len(x), count, -1).movedim(1, 2).unflatten(2, steps)
        y = cells * weights[:, :, None, :, None, :]
    else:
        chosen = F.one_hot(phase, count).bool().unflatten(1, steps)
        y = torch.where(chosen[:, None, None, :, None, :], cells, 0)
    y = laid_out(y.flatten(4, 5).flatten(2, 3), is_channels_last(x))
    if taps != (1, 1):
        y = blur_pool2d(y, taps, 1, "circular") * count
    cut: Tensor = y[..., : size[0], : size[1]]
    return cut
