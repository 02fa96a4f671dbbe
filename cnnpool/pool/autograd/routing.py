"""Max pooling under autograd: winners route gradients, to any order and in both modes."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from cnnpool.pool.autograd import winners as arithmetic
from cnnpool.pool.autograd.kernels import PackedMaxKernels
from cnnpool.pool.autograd.transforms import Linear, LinearMap, Transformable, apply, fold, save, unfold
from cnnpool.pool.dispatch import kernels, kernels_without_forward_mode
from cnnpool.pool.window import Window, is_channels_last

TILES = ((2, 2), (2, 2), (0, 0), (1, 1))


class Route(NamedTuple):
    """Everything except the winners that is needed to route a gradient back."""

    window: Window
    ties: arithmetic.Ties
    size: tuple[int, int]
    channels_last: bool


def _gather(x: Tensor, route: Route, winners: Tensor) -> Tensor:
    return arithmetic.gather(x, winners, route.window, route.ties)


def _scatter(grad: Tensor, route: Route, winners: Tensor) -> Tensor:
    return arithmetic.backward(grad, winners, *route)


AT_WINNERS = LinearMap(_gather, _scatter)


def scatter(grad: Tensor, winners: Tensor, route: Route) -> Tensor:
    """Gradient of the input: the gradient of each maximum, at its winners."""
    return apply(Linear, grad, AT_WINNERS, True, route, winners)


class Max(Transformable):
    """(x, window, ties) -> (maxima, winners); saves only the winners."""

    @staticmethod
    def forward(x: Tensor, window: Window, ties: arithmetic.Ties) -> tuple[Tensor, Tensor]:
        return arithmetic.forward(x, window, ties)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        x, window, ties = inputs
        ctx.route = Route(window, ties, (x.shape[2], x.shape[3]), is_channels_last(x))
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(output[1])
        save(ctx, output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, _: None) -> tuple[Tensor | None, None, None]:
        if grad is None:
            return None, None, None
        (winners,) = ctx.saved_tensors
        return scatter(grad, winners, ctx.route), None, None

    @staticmethod
    def push(ctx: Any, tangent: Tensor, *_: None) -> tuple[Tensor, None]:
        return apply(Linear, tangent, AT_WINNERS, False, ctx.route, *ctx.saved_tensors), None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], x: Tensor, window: Window, ties: arithmetic.Ties
    ) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        y, winners = apply(Max, fold(info.batch_size, x, in_dims[0]), window, ties)
        return (unfold(info.batch_size, y), unfold(info.batch_size, winners)), (0, 0)


def packs(x: Tensor, window: Window, ties: arithmetic.Ties) -> PackedMaxKernels | None:
    """The kernels that pool ``x`` with two bits per output, or None if there are none for this window."""
    if ties != "first" or window[:4] != TILES or not torch.is_grad_enabled():
        return None
    if window.ceil_mode and any(n % 2 for n in x.shape[2:]):
        return None
    found: PackedMaxKernels | None = kernels_without_forward_mode("max_2x2_packed", x)
    return found


class MaxTiles(Function):
    """(x, window, kernels of ``packs``) -> maxima of 2x2 tiles; saves two bits per output."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, window: Window, packed: PackedMaxKernels) -> Tensor:
        y, winners = packed.forward(x)
        ctx.packed = packed
        ctx.route = Route(window, "first", (x.shape[2], x.shape[3]), is_channels_last(x))
        ctx.save_for_backward(winners)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (winners,), last = ctx.saved_tensors, ctx.route.channels_last
        kernel: PackedMaxKernels | None = None if torch.is_grad_enabled() else kernels("max_2x2_packed", grad)
        if kernel is not None:
            return kernel.backward(grad, winners, ctx.route.size, last), None, None
        places = ctx.packed.unpack(winners, grad.shape[-4:], last)
        return scatter(grad, places, ctx.route), None, None
