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

    The gradient w_i (1 + beta (x_i - y)) flows through the weights too, and is negative for cells far below
    the output. A window whose maximum is infinite gives that maximum, with gradient 0; -inf beside a finite
    cell has no weight.

    Args:
        x: maps, (N, C, H, W) or (C, H, W), any floating dtype; half precision is summed in float32.
        kernel_size: window, >= 1, or (vertical, horizontal).
        stride: >= 1; None for ``kernel_size``.
        padding: at most half of ``kernel_size``; cells in the padding or the overhang take no part.
        ceil_mode: let the last window overhang.
        beta: sharpness, finite and > 0, or a tensor that fits (C, 1, 1).

    Returns:
        (N, C, H', W'), same dtype as ``x``.

    Raises:
        ValueError: if beta or another number is out of range, or no window fits.

    Example:
        >>> import torch
        >>> from cnnpool.pool import soft_pool2d
        >>> x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> soft_pool2d(x, 2)
        tensor([[[[3.4927]]]])
        >>> soft_pool2d(x, 2, beta=100)
        tensor([[[[4.]]]])
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
        channels: C of the input.
        kernel_size: window, >= 1, or (vertical, horizontal).
        stride: >= 1, or (vertical, horizontal).
        padding: at most half of ``kernel_size``.
        ceil_mode: let the last window overhang.
        beta: sharpness, finite and > 0, or where it starts when learnable.
        learnable: learn beta.
        per: with learnable, one beta for the layer or one per channel.

    Raises:
        ValueError: if a number is out of range, or the output would be empty.

    Example:
        >>> import torch
        >>> from cnnpool.pool import SoftPool2d
        >>> SoftPool2d(3, kernel_size=3, padding=1)(torch.rand(1, 3, 8, 8)).shape
        torch.Size([1, 3, 4, 4])
    """

    formula = "sum_i e^(beta x_i) x_i / sum_i e^(beta x_i)"
    paper = "Stergiou 2021, arXiv:2101.00440"
    shift = "commutes with shifts by multiples of the stride; larger beta aliases more, like max"
    gradient = "dense"

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

    def flops(self, height: int, width: int) -> int:
        return 5 * self.count_cells(height, width)

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        return soft_pool2d(x, *self.window, beta=self.beta(wide(x)))
