"""Means of windows with exponential weights: SoftPool, AdaPool, and the smooth maximum."""

import math
from typing import Unpack

import torch
from torch import Tensor

from cnnpool.bounds import AboveZero, Share
from cnnpool.pool.autograd.replayed import SOFT, Mean, evaluate
from cnnpool.pool.base import Cells, Padding, Place, Side, Size, WindowPool2d
from cnnpool.pool.cells import added, cells, count, inside, peak, weighted_mean
from cnnpool.pool.leaves import one_node
from cnnpool.pool.lip import softmax_weights
from cnnpool.pool.scalar import Fraction, Per, Positive, repeats
from cnnpool.pool.window import IntPair, Window, largest_finite, wide, window_on


@one_node
def soft_pool2d(
    x: Tensor,
    kernel_size: IntPair,
    stride: IntPair | None = None,
    padding: IntPair = 0,
    ceil_mode: bool = False,
    *,
    beta: float | Tensor = 1.0,
) -> Tensor:
    """Average of every window weighted by softmax(beta x): average as beta -> 0, max as beta -> infinity.

    A window whose maximum is infinite gives that maximum, with gradient 0; -inf beside a finite cell has no
    weight.

    Args:
        beta: sharpness, finite and > 0, or a tensor that fits (C, 1, 1).

    Example:
        >>> x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> soft_pool2d(x, 2), soft_pool2d(x, 2, beta=100)
        (tensor([[[[3.4927]]]]), tensor([[[[4.]]]]))
    """
    if not isinstance(beta, Tensor) and not 0 < beta < math.inf:
        raise ValueError(f"beta must be finite and above 0, got {beta}")
    window = window_on(x, kernel_size, stride, padding, ceil_mode)
    return evaluate(_soft_mean, x, beta, Mean(SOFT, window))


def _soft_mean(x: Tensor, beta: float | Tensor, how: Mean) -> Tensor:
    exact = wide(x)
    bound = largest_finite(exact)
    # clamp would stop the gradient of NaN.
    finite = torch.where(exact < -bound, -bound, torch.where(exact > bound, bound, exact))
    plain = not isinstance(beta, Tensor) and beta == 1
    # Sharpened values may exceed the largest number: bounded again, they stay comparable.
    weights = softmax_weights(finite if plain else (beta * finite).clamp(-bound, bound), how.window)
    largest = peak(exact, how.window)
    endless = largest.isinf()
    # Replaced before the division: the sum may be infinite, and 0 times that would be its gradient.
    sums = added(part * weight for part, weight in zip(cells(finite, how.window), weights, strict=True))
    soft = torch.where(endless, 0.0, sums) / added(weights)
    return torch.where(endless, largest, soft).to(x.dtype)


class SoftPool2d(WindowPool2d):
    """y = sum w_i x_i, w = softmax(beta x) over the window (Stergiou 2021, arXiv:2101.00440; beta = 1 there).

    A learnt beta is softplus(raw), so it stays above 0. Gradient: w_i (1 + beta (x_i - y)), dense, sums to
    one, negative for cells far below the output.

    Departs from the authors' code on the CPU, which weights by the sum of e^x over channels and clamps the
    result at 0: on noise of 3 channels 18 % of the outputs are negative here, and the two differ by 73 %.

    Args:
        beta: sharpness, finite and > 0, or where it starts when learnable.
    """

    formula = "sum_i e^(beta x_i) x_i / sum_i e^(beta x_i)"
    paper = "Stergiou 2021, arXiv:2101.00440"
    shift = "equivariant to shifts by multiples of the stride; larger beta aliases more, like max"
    gradient = "dense"
    cell_flops = 5

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Cells = 2,
        stride: Size = 2,
        padding: Padding = 0,
        ceil_mode: bool = False,
        beta: AboveZero = 1.0,
        learnable: bool = False,
        per: Per = "layer",
        **place: Unpack[Place],
    ):
        super().__init__(channels, kernel_size, stride, padding, ceil_mode, per=per, **place)
        self.beta = Positive("beta", beta, repeats(per, channels), learnable=learnable, **place)

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        return soft_pool2d(x, *self.window, beta=self.beta(wide(x)))


def dice_mean(x: Tensor, window: Window) -> Tensor:
    """Average of every window weighted by e^d, d = 2|x_i m| / (x_i^2 + m^2) for the window's mean m (eDSCW).

    The Dice-Sørensen coefficient d is 1 for |x_i| = |m| and falls to 0 with their ratio; 0/0 is taken as 0,
    its limit along either axis. Computed from the ratio, so that no square over- or underflows.
    """
    parts, present = cells(x, window), inside(x, window)
    mean = added(parts) / count(x, window)
    weights = [_dice(part, mean).exp() for part in parts]
    if present is not None:
        weights = [weight * mask for weight, mask in zip(weights, present, strict=True)]
    return weighted_mean(parts, weights)


def _dice(a: Tensor, b: Tensor) -> Tensor:
    small, large = torch.minimum(a.abs(), b.abs()), torch.maximum(a.abs(), b.abs())
    # Its gradient divides by the larger number, and the inverse of a subnormal one overflows.
    kind = torch.finfo(large.dtype)
    # Of two numbers torch.where would make a tensor of the default dtype, too narrow if that is float16.
    lift = torch.where(large < kind.smallest_normal, large.new_full((), 1 / kind.eps), 1.0)
    ratio = small * lift / torch.where(large == 0, 1.0, large * lift)
    return 2 * ratio / (1 + ratio.square())


@one_node
def ada_pool2d(
    x: Tensor,
    kernel_size: IntPair,
    stride: IntPair | None = None,
    padding: IntPair = 0,
    ceil_mode: bool = False,
    *,
    beta: float | Tensor = 0.5,
) -> Tensor:
    """beta eDSCW + (1 - beta) SoftPool: near the window's mean, or near its maximum (Stergiou 2023, AdaPool).

    Maps must be finite.

    Args:
        beta: share of eDSCW, in [0, 1], or a tensor that fits (H', W').

    Example:
        >>> x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> ada_pool2d(x, 2, beta=0), ada_pool2d(x, 2, beta=1)  # SoftPool, eDSCW
        (tensor([[[[3.4927]]]]), tensor([[[[2.5723]]]]))
    """
    if not isinstance(beta, Tensor) and not 0 <= beta <= 1:
        raise ValueError(f"beta must be in [0, 1], got {beta}")
    exact, window = wide(x), window_on(x, kernel_size, stride, padding, ceil_mode)
    similar = dice_mean(exact, window)
    soft = soft_pool2d(exact, kernel_size, stride, padding, ceil_mode)
    return (soft + beta * (similar - soft)).to(x.dtype)


class AdaPool2d(WindowPool2d):
    """y = beta eDSCW(x) + (1 - beta) SoftPool(x) with learnt beta (Stergiou 2023, arXiv:2111.00772).

    eDSCW weighs each cell by e to its Dice-Sørensen similarity with the window's mean, per channel as in the
    authors' kernel. A learnt beta is sigmoid(raw) instead of the paper's clamp, so it never sticks at an end.
    The gradient is that of the formula, weights and mean included; the authors' kernel holds them constant.

    Edges: torch's size formula; cells in the padding or the overhang take no part. All-zero windows give 0.

    Args:
        beta: share of eDSCW, in [0, 1], or where it starts when learnable.
        size: (H, W) of the input, for one beta per output location as in the paper; null for one per layer.
    """

    formula = (
        "beta sum_i w_i x_i + (1 - beta) SoftPool(x), w = softmax_i(2|x_i m| / (x_i^2 + m^2)), m = mean_i x_i"
    )
    paper = "Stergiou 2023, arXiv:2111.00772"
    shift = "equivariant to shifts by multiples of the stride while beta is the same everywhere"
    gradient = "dense"
    cell_flops = 14

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Cells = 2,
        stride: Size = 2,
        padding: Padding = 0,
        ceil_mode: bool = False,
        beta: Share = 0.5,
        learnable: bool = True,
        size: tuple[Side, Side] | None = None,
        **place: Unpack[Place],
    ):
        super().__init__(channels, kernel_size, stride, padding, ceil_mode, **place)
        self.size = size
        shape = (1,) if size is None else self.output_size(*size)
        self.beta = Fraction("beta", beta, shape, learnable=learnable, **place)

    def forward(self, x: Tensor) -> Tensor:
        if self.size is not None and x.shape[-2:] != self.size:
            raise ValueError(f"beta was made for maps of size={self.size}, got {tuple(x.shape[-2:])}")
        return ada_pool2d(x, *self.window, beta=self.beta(wide(x)))


@one_node
def logsumexp_pool2d(
    x: Tensor,
    kernel_size: IntPair,
    stride: IntPair | None = None,
    padding: IntPair = 0,
    ceil_mode: bool = False,
    *,
    r: float | Tensor = 1.0,
) -> Tensor:
    """The smooth maximum of every window, (1/r) log mean e^(r x_i): average as r -> 0, max as r -> infinity.

    The window's maximum is subtracted first and the small-r limit is taken through expm1 and log1p, so it
    neither overflows nor cancels. A window whose maximum is infinite gives that maximum, with gradient 0.

    Args:
        r: sharpness, finite and > 0, or a tensor that fits (C, 1, 1).

    Example:
        >>> x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> logsumexp_pool2d(x, 2), logsumexp_pool2d(x, 2, r=100)
        (tensor([[[[3.0539]]]]), tensor([[[[3.9861]]]]))
    """
    window = window_on(x, kernel_size, stride, padding, ceil_mode)
    if not isinstance(r, Tensor) and not 0 < r < math.inf:
        raise ValueError(f"r must be finite and above 0, got {r}")
    exact = wide(x)
    bound = largest_finite(exact)
    parts = cells(exact.clamp(-bound, bound), window, fill=-bound)
    largest = peak(exact, window)
    top = largest.clamp(-bound, bound)
    present = count(exact, window)
    # A cell outside the map counts expm1(-inf) = -1; adding them back leaves the sum over those inside.
    excess = added(torch.expm1(r * (part - top)) for part in parts) + (len(parts) - present)
    smooth = top + torch.log1p(excess / present) / r
    return torch.where(largest.isinf(), largest, smooth).to(x.dtype)


class LogSumExpPool2d(WindowPool2d):
    """y = (1/r) log mean e^(r x_i): between average (r -> 0) and max (r -> inf) (Boureau 2010, ICML).

    A learnt r is softplus(raw), so it stays above 0. Gradient: softmax(r x)_i, dense and sums to one.

    Args:
        r: sharpness, finite and > 0, or where it starts when learnable.
    """

    formula = "(1/r) log mean_i exp(r x_i)"
    paper = "Boureau 2010, A Theoretical Analysis of Feature Pooling in Visual Recognition (ICML)"
    shift = "equivariant to shifts by multiples of the stride; larger r aliases more, like max"
    gradient = "dense"
    cell_flops = 5

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Cells = 2,
        stride: Size = 2,
        padding: Padding = 0,
        ceil_mode: bool = False,
        r: AboveZero = 5.0,
        learnable: bool = False,
        per: Per = "layer",
        **place: Unpack[Place],
    ):
        super().__init__(channels, kernel_size, stride, padding, ceil_mode, per=per, **place)
        self.r = Positive("r", r, repeats(per, channels), learnable=learnable, **place)

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        return logsumexp_pool2d(x, *self.window, r=self.r(wide(x)))
