"""Linear maps under autograd: the gradient of each is its transpose, to any order."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from cnnpool.pool.dispatch import is_torchs


@dataclass(frozen=True)
class LinearMap:
    """A linear map and its transpose: (map, rule, *held) -> map, ``held`` tensors such as winners.

    Both also compute by torch's operators, differentiable in every way, where kernels cannot work.
    """

    forward: Callable[..., Tensor]
    adjoint: Callable[..., Tensor]

    @property
    def transposed(self) -> "LinearMap":
        return LinearMap(self.adjoint, self.forward)

    def __call__(self, x: Tensor, rule: Any, *held: Tensor) -> Tensor:
        if is_torchs(x) or not torch.is_grad_enabled():
            return self.forward(x, rule, *held)
        y: Tensor = Linear.apply(x, self, rule, *held)
        return y


class Linear(Function):
    """(x, linear map, rule, *held) -> the map applied to ``x``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, linear: LinearMap, rule: Any, *held: Tensor) -> Tensor:
        ctx.linear, ctx.rule = linear, rule
        ctx.save_for_backward(*held)
        return linear.forward(x, rule, *held)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        held = ctx.saved_tensors
        return ctx.linear.transposed(grad, ctx.rule, *held), None, None, *[None] * len(held)


def transpose(forward: Callable[[Tensor], Tensor], grad: Tensor, size: tuple[int, int]) -> Tensor:
    """The transpose, by torch's operators, of a linear map of maps of ``size``."""
    shape = *grad.shape[:2], *size
    with torch.enable_grad():
        # Not made from the gradient, which may be batched; under a transform a tensor cannot ask later.
        x = torch.zeros(shape, dtype=grad.dtype, device=grad.device, requires_grad=True)
        y = forward(x)
    return torch.autograd.grad(y, x, grad, create_graph=torch.is_grad_enabled())[0]
