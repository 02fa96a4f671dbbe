"""SoftPool: :func:`soft_pool2d`."""

import math
from typing import Unpack

import torch
from torch import Tensor

from cnnpool.bounds import AboveZero
from cnnpool.pool.autograd.kernels import SOFT, Mean
from cnnpool.pool.autograd.replayed import evaluate
from cnnpool.pool.base import Cells, Padding, Place, Size, WindowPool2d, checked
from cnnpool.pool.cells import peak
from cnnpool.pool.lip import softmax_mean
from cnnpool.pool.scalar import Per, Positive, repeats
from cnnpool.pool.window import IntPair, largest_finite, wide, window_on


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
    weight. Maps, windows and errors as in ``avg_pool2d``; cells outside the map take no part, and half
    precision is summed in float32.

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
    soft = softmax_mean(finite, finite if plain else (beta * finite).clamp(-bound, bound), how.window)
    largest = peak(exact, how.window)
    return torch.where(largest.isinf(), largest, soft).to(x.dtype)


@checked
class SoftPool2d(WindowPool2d):
    """y = sum w_i x_i, w = softmax(beta x) over the window (Stergiou 2021, arXiv:2101.00440; beta = 1 there).

    A learnt beta is softplus(raw), so it stays above 0. Gradient: w_i (1 + beta (x_i - y)), dense, sums to
    one, negative for cells far below the output.

    Edges: torch's size formula; cells in the padding or the overhang take no part.

    Args:
        beta: sharpness, finite and > 0, or where it starts when learnable.
    """

    formula = "sum_i e^(beta x_i) x_i / sum_i e^(beta x_i)"
    paper = "Stergiou 2021, arXiv:2101.00440"
    shift = "commutes with shifts by multiples of the stride; larger beta aliases more, like max"
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
        super().__init__(channels, kernel_size, stride, padding, ceil_mode, **place)
        self.fixed_channels = per == "channel"
        self.beta = Positive("beta", beta, repeats(per, channels), learnable=learnable, **place)

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        return soft_pool2d(x, *self.window, beta=self.beta(wide(x)))
