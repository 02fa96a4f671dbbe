"""Means of windows under autograd: kernels compute them, torch's operators the higher derivatives."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from cnnpool.pool.dispatch import kernels
from cnnpool.pool.window import Window, wide_of

POWER: Literal[0] = 0
FLOORED: Literal[1] = 1
SOFT: Literal[2] = 2
EXPECTED: Literal[3] = 3
SIGNED: Literal[4] = 4


class Mean(NamedTuple):
    """The mean of a window: power mean of |x| (POWER) or of max(x, floor) (FLOORED), weighted by softmax
    (SOFT), or weighted by max(x, 0) (EXPECTED, whose number is 2); or the sum of odd powers of x itself
    (SIGNED).
    """

    kind: Literal[0, 1, 2, 3, 4]
    window: Window
    floor: float = 0.0
    mean: bool = True
    """Whether the sum of powers is divided by the number of cells."""


Plain = Callable[[Tensor, Tensor | float, Mean], Tensor]
"""(maps, number, mean) -> means, by differentiable operators of torch."""


def evaluate(plain: Plain, x: Tensor, number: Tensor | float, how: Mean) -> Tensor:
    """The mean of windows of ``x``, by kernels where possible; one ``number``, or one per channel."""
    kernel = _kernel(x, number, how)
    if kernel is None:
        return plain(x, number, how)
    y: Tensor = Replayed.apply(x if x.dim() == 4 else x.unsqueeze(0), number, plain, how, kernel)
    return y if x.dim() == 4 else y.squeeze(0)


def _kernel(x: Tensor, number: Tensor | float, how: Mean) -> Any:
    stem, cells = "window_means", how.window.cells
    if not isinstance(number, Tensor):
        return kernels(stem, x, cells=cells)
    shape = (1, 1, 1, *number.shape)[-3:]
    fits = number.dim() <= 3 and shape in ((1, 1, 1), (x.shape[-3], 1, 1)) and number.dtype == wide_of(x)
    return kernels(stem, x, number, cells=cells) if fits else None


class Replayed(Function):
    """(x, number, plain, mean, kernels) -> values; saves only ``x``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, number: Tensor | float, plain: Plain, how: Mean, kernel: Any) -> Any:
        ctx.plain, ctx.how, ctx.number = plain, how, None if isinstance(number, Tensor) else number
        ctx.save_for_backward(x, number if isinstance(number, Tensor) else None)
        return kernel.forward(x, number, how)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        (x, held), how = ctx.saved_tensors, ctx.how
        number, (wanted, learnt, *_) = ctx.number if held is None else held, ctx.needs_input_grad
        higher = torch.is_grad_enabled()
        # Expected draws have no kernel of their gradient.
        own = not higher and how.kind != EXPECTED
        if own and (kernel := kernels("window_means", grad, cells=how.window.cells)):
            return *kernel.backward(grad, x, number, how, learnt), None, None, None
        with torch.enable_grad():
            # Views, so that a path outside from one input to the other is not differentiated twice.
            x = x.view_as(x) if higher and wanted else x.detach().requires_grad_(wanted)
            if held is not None:
                number = held.view_as(held) if higher and learnt else held.detach().requires_grad_(learnt)
            inputs = [t for t, need in ((x, wanted), (number, learnt)) if need]
            y = ctx.plain(x, number, how)
            grads = iter(torch.autograd.grad(y, inputs, grad, create_graph=higher))
        return next(grads) if wanted else None, next(grads) if learnt else None, None, None, None
