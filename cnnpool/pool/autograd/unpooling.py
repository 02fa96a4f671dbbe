"""Unpooling under autograd: linear in the maxima, whose places in the map are given."""

from typing import Any

import torch
from torch import Tensor

from cnnpool.pool.autograd.transforms import Transformable, apply, fold, save, unfold


def unpool(x: Tensor, index: Tensor, size: tuple[int, int]) -> Tensor:
    """Zeros (N, C, *size) with the elements of ``x`` (N, C, H', W') at the places ``index`` in their planes.

    Where several have the same place the last in row-major order stands, on every device and in every run.
    """
    order = torch.arange(index.shape[-2] * index.shape[-1], device=index.device)
    flat = index.flatten(2)
    # The largest of several is the same in whichever order they come.
    owner = flat.new_full((*flat.shape[:2], size[0] * size[1]), -1)
    owner = owner.scatter_reduce(2, flat, order.expand_as(flat), "amax")
    planes: Tensor = apply(Unpool, x.flatten(2), flat, owner, False).unflatten(2, size)
    return planes


class Unpool(Transformable):
    """(elements, their places, the element of each place or -1, False) -> planes; with True the adjoint."""

    @staticmethod
    def forward(x: Tensor, index: Tensor, owner: Tensor, adjoint: bool) -> Tensor:
        if not adjoint:
            return torch.where(owner < 0, 0, x.gather(2, owner.clamp(min=0)))
        order = torch.arange(index.shape[2], device=index.device)
        return torch.where(owner.gather(2, index) == order, x.gather(2, index), 0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, index, owner, ctx.adjoint = inputs
        save(ctx, index, owner)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        return apply(Unpool, grad, *ctx.saved_tensors, not ctx.adjoint), None, None, None

    @staticmethod
    def push(ctx: Any, tangent: Tensor, *_: None) -> Tensor:
        return apply(Unpool, tangent, *ctx.saved_tensors, ctx.adjoint)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Tensor, int]:
        tensors = (fold(info.batch_size, t, axis) for t, axis in zip(args[:3], in_dims, strict=False))
        return unfold(info.batch_size, apply(Unpool, *tensors, args[3])), 0
