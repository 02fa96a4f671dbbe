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

    Maps, windows and errors as in ``avg_pool2d``; cells outside the map take no part, and half precision is
    summed in float32.

    Args:
        p: power, > 0, or a tensor that fits (C, 1, 1).
        eps: floor of x, > 0. Below it a cell has no gradient, and a window entirely below gives eps.

    Example:
        >>> x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> gem_pool2d(x, 2, p=1), gem_pool2d(x, 2, p=3)
        (tensor([[[[2.5000]]]]), tensor([[[[2.9240]]]]))
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
        p: power, > 0, or where it starts when learnable.
        eps: floor of x, > 0.
    """

    formula = "(mean_i max(x_i, eps)^p)^(1/p)"
    paper = "Radenović 2018, arXiv:1711.02512"
    shift = "commutes with shifts by multiples of the stride; larger p aliases more, like max"
    gradient = "dense"
    cell_flops = 4

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

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        return gem_pool2d(x, *self.window, p=self.p(wide(x)), eps=self.eps)
