"""The maximum of 2x2 windows around every pixel, blurred, in one step that keeps the winners alone."""

from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function, forward_ad

from cnnpool.pool import cpu, gpu
from cnnpool.pool.autograd.routing import Route, Scatter
from cnnpool.pool.autograd.transforms import apply
from cnnpool.pool.blurring import Blur, Geometry
from cnnpool.pool.window import Window

# Padded on both sides, 2x2 windows are one too many; the first, above and left of the map, is left out.
DENSE = Window((2, 2), (1, 1), (1, 1), (1, 1), False)


def fuses(x: Tensor, geometry: Geometry) -> bool:
    """Whether ``MaxBlur`` can take ``x``: a plain tensor that only backward differentiation may follow."""
    taken = cpu.take(x) or (geometry.few_taps and gpu.take(x))
    return taken and forward_ad._current_level < 0


def _kernels(x: Tensor) -> ModuleType:
    if gpu.take(x):
        from cnnpool.pool.gpu import max_blur
    else:
        from cnnpool.pool.cpu import max_blur
    return max_blur


class MaxBlur(Function):
    """(x, geometry) -> blurred maxima of 2x2 windows around every pixel."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, geometry: Geometry) -> Tensor:
        y, winners = _kernels(x).forward(x, geometry)
        ctx.geometry = geometry
        ctx.save_for_backward(winners)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (winners,) = ctx.saved_tensors
        if fuses(grad, ctx.geometry) and not torch.is_grad_enabled():
            return _kernels(grad).backward(grad, winners, ctx.geometry), None
        # Differentiable, in the steps that ``max_pool2d`` and ``blur_pool2d`` would take.
        maxima = F.pad(apply(Blur, grad, ctx.geometry, True), (1, 0, 1, 0))
        # Windows that are left out get nothing; their winners must be in the map all the same.
        places = F.pad(F.pad(winners, (0, 0, 1, 0), value=2), (1, 0, 0, 0), value=1)
        places[..., 0, 0] = 3
        route = Route(DENSE, "first", ctx.geometry.size, ctx.geometry.channels_last)
        return apply(Scatter, maxima, places, route), None
