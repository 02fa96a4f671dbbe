"""Adaptive polyphase sampling: :func:`aps_pool2d`; and the base class of operators that choose phases."""

import math
from typing import Annotated, Any, Literal, Unpack

import torch
from annotated_types import Predicate, doc
from torch import Tensor

from cnnpool.bounds import is_norm
from cnnpool.pool.autograd.kernels import PhaseKernels
from cnnpool.pool.autograd.phases import blocks, complete, sample_phase
from cnnpool.pool.base import CellPool2d, Place, Size, Taps, both, check_choice, checked
from cnnpool.pool.dispatch import kernels
from cnnpool.pool.fourier import full_precision
from cnnpool.pool.internals import is_exported
from cnnpool.pool.window import IntPair, check_batch, pair, wide

Choose = Literal["max", "min"]
Order = Annotated[float, Predicate(is_norm), doc("1, 2 or inf")]


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
    kernel: PhaseKernels | None = kernels("phases", x, cells=stride[0] * stride[1]) if p != math.inf else None
    if kernel is not None:
        return kernel.norms(x, stride, scale, p == 2)
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
    ``choose`` once and pass its result to both, or set ``keep_phase`` and read from ``phase`` the phases that
    the latest forward pass sampled, in the format of ``sample_phase``.

    Args:
        filter_size: taps of a circular binomial blur of the output, >= 1; the phase is chosen without it.
    """

    keep_phase: bool = False
    phase: Tensor | None = None

    def __init__(self, channels: int, stride: Size, filter_size: Taps, **place: Unpack[Place]):
        super().__init__(channels, stride=stride, **place)
        self.filter_size = both(filter_size)

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


@checked
class ApsPool2d(PolyphasePool2d):
    """Keep the subsampled map of largest norm among the s x s (Chaman & Dokmanic 2021), by ``aps_pool2d``.

    All channels of a sample share one phase, so that circular shifts of the input shift the output exactly.
    The gradient goes only to the chosen pixels, 1/s^2 of all (with a blur, to their neighbours too).

    Edges: H' = ceil(H/s); a size that the stride does not divide is first padded circularly, and shifts then
    no longer commute exactly. Equal norms: the first phase in row-major order.

    Args:
        p: order of the norm: 1, 2 or inf.
        choose: the phase of largest (max) or smallest (min) norm.
    """

    formula = "x_k, k = argmax_k ||x_k||_p over the s x s phases x_k"
    paper = "Chaman & Dokmanic 2021, arXiv:2011.14214"
    shift = "commutes with every circular shift, up to a shift of the output"
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
