"""Kernels under autograd: values and first gradients compiled, all else replayed by torch's operators."""

from typing import Any, Protocol

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad

from cnnpool.pool import cpu, gpu
from cnnpool.pool.precision import wide
from cnnpool.pool.window import Window


class Formula(Protocol):
    """An operator of maps (N, C, H, W) with one number, or one for every channel."""

    window: Window

    def plain(self, x: Tensor, number: Tensor | float) -> Tensor:
        """By differentiable operators of torch."""

    def forward(self, x: Tensor, number: Tensor | float) -> Tensor:
        """By a kernel."""

    def backward(
        self, grad: Tensor, x: Tensor, number: Tensor | float, learnt: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Gradients of ``x`` and, if it is ``learnt``, of the number, by a kernel."""


def evaluate(formula: Formula, x: Tensor, number: Tensor | float) -> Tensor:
    """``formula`` of ``x``, (N, C, H, W) or (C, H, W), by kernels where they can work."""
    if not _fits(x, number, formula.window.cells):
        return formula.plain(x, number)
    y = Replayed.apply(x if x.dim() == 4 else x.unsqueeze(0), number, formula)
    return y if x.dim() == 4 else y.squeeze(0)


def can_work(cells: int, *tensors: Tensor) -> bool:
    """Whether kernels may work on ``tensors``, by windows of ``cells``: nothing else looks on."""
    taken = cpu.take(*tensors) or (cells <= gpu.MOST_CELLS and gpu.take(*tensors))
    return taken and forward_ad._current_level < 0 and not torch._C._are_functorch_transforms_active()


def _fits(x: Tensor, number: Tensor | float, cells: int) -> bool:
    if not isinstance(number, Tensor):
        return can_work(cells, x)
    shape = (1, 1, 1, *number.shape)[-3:]
    fits = number.dim() <= 3 and shape in ((1, 1, 1), (x.shape[-3], 1, 1))
    return fits and can_work(cells, x, number) and number.dtype == wide(x).dtype


class Replayed(Function):
    """(x, number, formula) -> values; keeps ``x`` alone."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, number: Tensor | float, formula: Formula) -> Tensor:
        ctx.formula, ctx.number = formula, None if isinstance(number, Tensor) else number
        ctx.save_for_backward(x, number if isinstance(number, Tensor) else None)
        return formula.forward(x, number)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, held = ctx.saved_tensors
        number, (wanted, learnt, _) = ctx.number if held is None else held, ctx.needs_input_grad
        higher = torch.is_grad_enabled()
        if not higher and ctx.formula.backward is not None and (cpu.take(grad) or gpu.take(grad)):
            by_x, by_number = ctx.formula.backward(grad, x, number, learnt)
            return by_x, by_number, None
        with torch.enable_grad():
            # Views of them, so that ways from one to the other outside are not gone twice.
            x = x.view_as(x) if higher and wanted else x.detach().requires_grad_(wanted)
            if held is not None:
                number = held.view_as(held) if higher and learnt else held.detach().requires_grad_(learnt)
            asked = [t for t, need in ((x, wanted), (number, learnt)) if need]
            y = ctx.formula.plain(x, number)
            grads = iter(torch.autograd.grad(y, asked, grad, create_graph=higher))
        return next(grads) if wanted else None, next(grads) if learnt else None, None
