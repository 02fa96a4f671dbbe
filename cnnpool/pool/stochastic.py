"""Pooling that draws one value of each window, with probability proportional to it."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from cnnpool.pool.autograd.replayed import EXPECTED, Mean, evaluate
from cnnpool.pool.autograd.winners import Route, scatter
from cnnpool.pool.base import PlainWindowPool2d
from cnnpool.pool.cells import added, cells, peak, power_of_2
from cnnpool.pool.dispatch import kernels
from cnnpool.pool.leaves import one_node
from cnnpool.pool.window import IntPair, Window, is_channels_last, laid_out, wide, window_on

# Marks that there is no winner; the window must have fewer cells.
NOWHERE = 255


@one_node
def stochastic_pool2d(
    x: Tensor,
    kernel_size: IntPair,
    stride: IntPair | None = None,
    padding: IntPair = 0,
    ceil_mode: bool = False,
    *,
    training: bool = True,
) -> Tensor:
    """Draw one value of each window with probability p_i = x_i / sum x (Zeiler & Fergus 2013).

    x is replaced by r = max(x, 0), as after a ReLU, so that negative values are never drawn. A window without
    positive values gives 0. A window with infinity or NaN gives that value, without gradient.

    Args:
        training: draw from torch's generator of x's device; else return the expectation sum p_i r_i.

    Example:
        >>> stochastic_pool2d(torch.tensor([[[[1.0, 1.0], [1.0, 5.0]]]]), 2, training=False)
        tensor([[[[3.5000]]]])
    """
    window = window_on(x, kernel_size, stride, padding, ceil_mode)
    if not training:
        return evaluate(_expected, x, 2.0, Mean(EXPECTED, window))
    rows, columns = window.output_size(*x.shape[-2:])
    uniforms = torch.rand((*x.shape[:-2], rows, columns), dtype=wide(x).dtype, device=x.device)
    kernel = kernels("multinomial", x, cells=window.cells) if x.dim() == 4 else None
    if kernel is not None:
        *drawn, finite, won = kernel.drawn(x.detach(), uniforms, window)
        if finite:
            y: Tensor = Drawn.apply(x, (*drawn, won), window) if x.requires_grad else drawn[0]
            return y
    return _finish(x, window, lambda parts, _: _draw(parts, uniforms))


def _expected(x: Tensor, _: Tensor | float, how: Mean) -> Tensor:
    return _finish(x, how.window, _weigh)


class Drawn(Function):
    """(x, (draws, winners, whether all have one), window) -> draws, whose gradients go to the winners.

    The draws are hidden in a tuple, so that the result may be changed in place.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, drawn: tuple[Tensor, Tensor, bool], window: Window) -> Tensor:
        y, winners, ctx.won = drawn
        ctx.save_for_backward(winners)
        ctx.route = Route(window, "first", (x.shape[2], x.shape[3]), is_channels_last(x))
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (winners,) = ctx.saved_tensors
        # Triton's kernels of the gradient skip windows without a winner.
        kernel = None if torch.is_grad_enabled() else kernels("max", grad, cells=ctx.route.window.cells)
        if not ctx.won and not (kernel is not None and kernel.SKIPS_NOWHERE):
            none = winners == NOWHERE
            grad, winners = grad.masked_fill(none, 0), winners.masked_fill(none, 0)
        return scatter(grad, winners, ctx.route), None, None


def _finish(x: Tensor, window: Window, choose: Callable[[list[Tensor], Tensor], Tensor]) -> Tensor:
    # clamp and relu would stop the gradient of a cell that is exactly 0.
    exact = torch.where(x < 0, 0, wide(x))
    top = peak(exact, window)
    finite = top.isfinite()
    # Sums of the largest numbers stay finite, and shares of the smallest exact.
    scale = power_of_2(torch.where(finite & (top > 0), top, 1))
    parts = [torch.where(finite, part, 0) * scale for part in cells(exact, window)]
    total = sum(parts[1:], parts[0])
    y = torch.where(finite, choose(parts, total) / scale, top).to(x.dtype)
    return laid_out(y, x.dim() == 4 and is_channels_last(x))


def _weigh(parts: list[Tensor], total: Tensor) -> Tensor:
    share = torch.where(total == 0, 1, total)
    return added(part / share * part for part in parts)


def _draw(parts: list[Tensor], uniforms: Tensor) -> Tensor:
    """One of ``parts`` at each place, with probability proportional to its value there."""
    ladder = list(accumulate(part.detach() for part in parts))
    # In (0, top]: the first rung at or above it always exists, and belongs to a positive value.
    threshold = (1 - uniforms) * ladder[-1]
    drawn = parts[-1]
    for part, rung in zip(parts[-2::-1], ladder[-2::-1], strict=True):
        drawn = torch.where(threshold <= rung, part, drawn)
    return drawn


class StochasticPool2d(PlainWindowPool2d):
    """Training: draw one value of each window, p_i = x_i / sum x; eval: sum p_i x_i (Zeiler & Fergus 2013).

    By ``stochastic_pool2d``, which takes max(x, 0) for x: meant to follow a ReLU; windows are 3 x 3 in the
    paper. Gradient in training: 1 at the value drawn, 0 elsewhere. In eval mode: (2 x_i - y) / sum x,
    negative for small x_i, and 0 for negative x_i. A window of zeros gives 0, and its gradient to its first
    cell (training) or to none.

    Edges: torch's size formula; cells in the padding or the overhang are never drawn.
    """

    formula = "x_i with probability x_i / sum_j x_j in training, sum_i x_i^2 / sum_j x_j in eval (x >= 0)"
    paper = "Zeiler & Fergus 2013, arXiv:1301.3557"
    shift = "in evaluation: equivariant to shifts by multiples of the stride; between max and average"
    gradient = "sparse"
    random = True

    def flops(self, height: int, width: int) -> int:
        return 4 * self.count_cells(height, width) + self.count_outputs(height, width)

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        self.output_size(*x.shape[-2:])
        return stochastic_pool2d(x, *self.window, training=self.training)
