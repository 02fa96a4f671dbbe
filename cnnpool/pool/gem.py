"""Generalised-mean (GeM) pooling in local windows: :func:`gem_pool2d`."""

from typing import Unpack

from torch import Tensor

from cnnpool.bounds import AboveZero
from cnnpool.pool.autograd.kernels import FLOORED, Mean
from cnnpool.pool.autograd.replayed import evaluate
from cnnpool.pool.base import Cells, Padding, Place, Size, WindowPool2d, checked
from cnnpool.pool.lp import power_mean
from cnnpool.pool.scalar import Per, Positive, repeats
from cnnpool.pool.window import IntPair, wide, window_on


def gem_pool2d(
    x: Tensor,
    kernel_size: IntPair,
    stride: IntPair | None = None,
    padding: IntPair = 0,
    ceil_mode: bool = False,
    *,
    p: float | Tensor = 3.0,
    eps: float = 1e-6,
) -> Tensor:
    """The generalised mean of every window, (mean max(x_i, eps)^p)^(1/p) (Radenović 2018, arXiv:1711.02512).

    Args:
        x: maps, (N, C, H, W) or (C, H, W), any floating dtype; half precision is summed in float32.
        kernel_size: window, >= 1, or (vertical, horizontal).
        stride: >= 1; None for ``kernel_size``.
        padding: at most half of ``kernel_size``; cells in the padding or the overhang take no part.
        ceil_mode: let the last window overhang.
        p: power, > 0, or a tensor that fits (C, 1, 1).
        eps: floor of x, > 0. Below it a cell has no gradient, and a window entirely below gives eps.

    Returns:
        (N, C, H', W'), same dtype as ``x``.

    Raises:
        ValueError: if p or eps is not above 0, a number is out of range, or no window fits.

    Example:
        >>> import torch
        >>> from cnnpool.pool import gem_pool2d
        >>> x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> gem_pool2d(x, 2, p=1)
        tensor([[[[2.5000]]]])
        >>> gem_pool2d(x, 2, p=3)
        tensor([[[[2.9240]]]])
    """
    if not eps > 0:
        raise ValueError(f"eps must be above 0, got {eps}")
    if not isinstance(p, Tensor) and not p > 0:
        raise ValueError(f"p must be above 0, got {p}")
    window = window_on(x, kernel_size, stride, padding, ceil_mode)
    return evaluate(power_mean, x, p, Mean(FLOORED, window, eps))


@checked
class GemPool2d(WindowPool2d):
    """y = (mean max(x_i, eps)^p)^(1/p): p = 1 averages, large p nears max (Radenović 2018, arXiv:1711.02512).

    The paper pools the whole map; here the same mean is taken in every window. A learnt p is softplus(raw),
    so it stays above 0. Gradient: x_i^(p-1) y^(1-p) / n where x_i > eps, else 0: a window without a positive
    cell is dead.

    Edges: torch's size formula; cells in the padding or the overhang take no part.

    Args:
        channels: C of the input.
        kernel_size: window, >= 1, or (vertical, horizontal).
        stride: >= 1, or (vertical, horizontal).
        padding: at most half of ``kernel_size``.
        ceil_mode: let the last window overhang.
        p: power, > 0, or where it starts when learnable.
        learnable: learn p.
        per: with learnable, one p for the layer or one per channel.
        eps: floor of x, > 0.

    Raises:
        ValueError: if a number is out of range, or the output would be empty.

    Example:
        >>> import torch
        >>> from cnnpool.pool import GemPool2d
        >>> pool = GemPool2d(3)
        >>> pool(torch.rand(1, 3, 8, 8)).shape
        torch.Size([1, 3, 4, 4])
        >>> pool.p.raw.numel()  # one learnt p
        1
    """

    formula = "(mean_i max(x_i, eps)^p)^(1/p)"
    paper = "Radenović 2018, arXiv:1711.02512"
    shift = "commutes with shifts by multiples of the stride; larger p aliases more, like max"
    gradient = "dense"

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Cells = 2,
        stride: Size = 2,
        padding: Padding = 0,
        ceil_mode: bool = False,
        p: AboveZero = 3.0,
        learnable: bool = True,
        per: Per = "layer",
        eps: AboveZero = 1e-6,
        **place: Unpack[Place],
    ):
        super().__init__(channels, kernel_size, stride, padding, ceil_mode, **place)
        self.fixed_channels = per == "channel"
        self.eps = eps
        self.p = Positive("p", p, repeats(per, channels), learnable=learnable, **place)

    def flops(self, height: int, width: int) -> int:
        return 4 * self.count_cells(height, width)

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        return gem_pool2d(x, *self.window, p=self.p(wide(x)), eps=self.eps)
