"""The maximum of 2x2 windows around every pixel, blurred, in one step that saves only the winners."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

from cnnpool.pool.autograd.blurring import Blur
from cnnpool.pool.autograd.kernels import MaxBlurKernels
from cnnpool.pool.autograd.linear_maps import Blurring
from cnnpool.pool.autograd.routing import Route, Scatter
from cnnpool.pool.autograd.transforms import apply
from cnnpool.pool.dispatch import kernels_without_forward_mode
from cnnpool.pool.window import Window

# Padded on both sides, 2x2 windows are one too many; the first, above and left of the map, is left out.
DENSE = Window((2, 2), (1, 1), (1, 1), (1, 1), False)


def fuses(x: Tensor, blurring: Blurring) -> MaxBlurKernels | None:
    """The kernels of ``MaxBlur`` for ``x``, if there are any."""
    found: MaxBlurKernels | None = kernels_without_forward_mode("max_blur", x, cells=blurring.cells)
    return found


class MaxBlur(Function):
    """(x, blurring, kernels of ``fuses``) -> blurred maxima of 2x2 windows around every pixel."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, blurring: Blurring, fused: MaxBlurKernels) -> Tensor:
        y, winners = fused.forward(x, blurring)
        ctx.blurring = blurring
        ctx.save_for_backward(winners)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (winners,) = ctx.saved_tensors
        fused = None if torch.is_grad_enabled() else fuses(grad, ctx.blurring)
        if fused is not None:
            return fused.backward(grad, winners, ctx.blurring), None, None
        # Differentiable, in the steps that ``max_pool2d`` and ``blur_pool2d`` would take.
        maxima = F.pad(apply(Blur, grad, ctx.blurring, True), (1, 0, 1, 0))
        # Windows that are left out get nothing; their winners must be in the map all the same.
        places = F.pad(F.pad(winners, (0, 0, 1, 0), value=2), (1, 0, 0, 0), value=1)
        places[..., 0, 0] = 3
        route = Route(DENSE, "first", ctx.blurring.size, ctx.blurring.channels_last)
        return apply(Scatter, maxima, places, route), None, None
