"""Kernels under autograd: values and first gradients by kernels, all else replayed by torch's operators."""

from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd import Function

from cnnpool.pool.dispatch import kernels, kernels_without_forward_mode
from cnnpool.pool.precision import wide_of
from cnnpool.pool.window import Window


class Formula(Protocol):
    """An operator of maps (N, C, H, W) with one number, or one for every channel."""

    @property
    def window(self) -> Window: ...

    @property
    def kernels(self) -> str:
        """The stem of the kernels that know the operator."""
        ...

    def plain(self, x: Tensor, number: Tensor | float) -> Tensor:
        """By differentiable operators of torch."""
        ...

    def forward(self, kernel: Any, x: Tensor, number: Tensor | float) -> Tensor:
        """By a kernel."""
        ...

    def backward(
        self, kernel: Any, grad: Tensor, x: Tensor, number: Tensor | float, learnt: bool
    ) -> tuple[Tensor, Tensor | None] | None:
        """Gradients of ``x`` and, if it is ``learnt``, of the number, by a kernel; None if there is none."""
        ...


def evaluate(formula: Formula, x: Tensor, number: Tensor | float) -> Tensor:
    """``formula`` of ``x``, (N, C, H, W) or (C, H, W), by kernels where they can work."""
    kernel = _kernel(formula, x, number)
    if kernel is None:
        return formula.plain(x, number)
    y: Tensor = Replayed.apply(x if x.dim() == 4 else x.unsqueeze(0), number, formula, kernel)
    return y if x.dim() == 4 else y.squeeze(0)


def _kernel(formula: Formula, x: Tensor, number: Tensor | float) -> Any:
    stem, cells = formula.kernels, formula.window.cells
    if not isinstance(number, Tensor):
        return kernels_without_forward_mode(stem, x, cells=cells)
    shape = (1, 1, 1, *number.shape)[-3:]
    fits = number.dim() <= 3 and shape in ((1, 1, 1), (x.shape[-3], 1, 1)) and number.dtype == wide_of(x)
    return kernels_without_forward_mode(stem, x, number, cells=cells) if fits else None


class Replayed(Function):
    """(x, number, formula, kernels) -> values; saves only ``x``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, number: Tensor | float, formula: Formula, kernel: Any) -> Tensor:
        ctx.formula, ctx.number = formula, None if isinstance(number, Tensor) else number
        ctx.save_for_backward(x, number if isinstance(number, Tensor) else None)
        return formula.forward(kernel, x, number)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        (x, held), formula = ctx.saved_tensors, ctx.formula
        number, (wanted, learnt, *_) = ctx.number if held is None else held, ctx.needs_input_grad
        higher = torch.is_grad_enabled()
        kernel = None if higher else kernels(formula.kernels, grad, cells=formula.window.cells)
        found = None if kernel is None else formula.backward(kernel, grad, x, number, learnt)
        if found is not None:
            return *found, None, None
        with torch.enable_grad():
            # Views, so that a path from one to the other outside is not differentiated twice.
            x = x.view_as(x) if higher and wanted else x.detach().requires_grad_(wanted)
            if held is not None:
                number = held.view_as(held) if higher and learnt else held.detach().requires_grad_(learnt)
            asked = [t for t, need in ((x, wanted), (number, learnt)) if need]
            y = formula.plain(x, number)
            grads = iter(torch.autograd.grad(y, asked, grad, create_graph=higher))
        return next(grads) if wanted else None, next(grads) if learnt else None, None, None
