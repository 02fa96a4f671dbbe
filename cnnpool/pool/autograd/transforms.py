"""Autograd functions that work under ``torch.func`` and ``torch.compile`` alike."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor
from torch.autograd import Function, forward_ad

from cnnpool.pool.internals import is_transforming

Output = TypeVar("Output", covariant=True)


class Transformable(Function):
    """A Function whose rule for forward-mode differentiation is the staticmethod ``push``, named so that
    ``apply`` can leave it out. It saves tensors with ``save``.
    """

    @staticmethod
    def push(ctx: Any, *tangents: Any, **_: Any) -> Any:
        raise NotImplementedError


class Returning(Protocol[Output]):
    """The class of a ``Transformable`` whose ``forward`` returns ``Output``."""

    def forward(self, *args: Any, **_: Any) -> Output: ...
    def apply(self, *args: Any, **_: Any) -> Any: ...


def apply(function: Returning[Output], *args: Any) -> Output:
    """``function.apply(*args)``, differentiable in forward mode too where torch allows that."""
    # torch.compile rejects a Function with a jvp; forward mode requires one.
    output: Output
    if torch.compiler.is_compiling():
        output = function.apply(*args)
    elif is_transforming():
        output = _with_jvp(function).apply(*args)  # type: ignore[arg-type]
    elif torch.is_grad_enabled() or any(map(_has_tangent, args)):
        output = _at_once(function).apply(*args)  # type: ignore[arg-type]
    else:
        output = function.forward(*args)
    return output


def _has_tangent(value: Any) -> bool:
    return isinstance(value, Tensor) and forward_ad.unpack_dual(value).tangent is not None


def save(ctx: Any, *tensors: Tensor) -> None:
    """Save ``tensors`` for backward and for forward mode."""
    ctx.save_for_backward(*tensors)
    if not torch.compiler.is_compiling():
        ctx.save_for_forward(*tensors)


def fold(batch_size: int, t: Tensor, axis: int | None) -> Tensor:
    """Merge the axis that ``vmap`` maps into N; repeat ``t`` if it is not mapped."""
    t = t.unsqueeze(0).expand(batch_size, *t.shape) if axis is None else t.movedim(axis, 0)
    return t.flatten(0, 1)


def unfold(batch_size: int, t: Tensor) -> Tensor:
    """Split the mapped axis off N again, in front."""
    batches: Tensor = t.unflatten(0, (batch_size, t.shape[0] // max(batch_size, 1)))
    return batches


class LinearMap(NamedTuple):
    """A linear map and its transpose: (map, rule, *held) -> map, ``held`` tensors such as winners."""

    forward: Callable[..., Tensor]
    adjoint: Callable[..., Tensor]


class Linear(Transformable):
    """(x, linear map, transposed, rule, *held) -> the map, or its transpose, applied to ``x``."""

    @staticmethod
    def forward(x: Tensor, linear: LinearMap, transposed: bool, rule: Any, *held: Tensor) -> Tensor:
        return linear.adjoint(x, rule, *held) if transposed else linear.forward(x, rule, *held)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        _, ctx.linear, ctx.transposed, ctx.rule, *held = inputs
        save(ctx, *held)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        held = ctx.saved_tensors
        x = apply(Linear, grad, ctx.linear, not ctx.transposed, ctx.rule, *held)
        return x, None, None, None, *[None] * len(held)

    @staticmethod
    def push(ctx: Any, tangent: Tensor, *_: None) -> Tensor:
        return apply(Linear, tangent, ctx.linear, ctx.transposed, ctx.rule, *ctx.saved_tensors)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], x: Tensor, linear: LinearMap, transposed: bool, rule: Any,
        *held: Tensor,
    ) -> tuple[Tensor, int]:  # fmt: skip
        size, dims = info.batch_size, in_dims[4:]
        folded = [fold(size, t, axis) for t, axis in zip(held, dims, strict=True)]
        y = apply(Linear, fold(size, x, in_dims[0]), linear, transposed, rule, *folded)
        return unfold(size, y), 0


@cache
def _with_jvp(function: Any) -> Any:
    return type(function)(function.__name__, (function,), {"jvp": staticmethod(function.push)})


@cache
def _at_once(function: Any) -> Any:
    """``function`` with forward and setup_context merged: unusable in ``torch.func``, much faster to call."""

    def forward(ctx: Any, *args: Any) -> Any:
        output = function.forward(*args)
        function.setup_context(ctx, args, output)
        return output

    body = {
        "forward": forward,
        "setup_context": Function.setup_context,
        "backward": function.backward,
        "jvp": function.push,
    }
    return type(function)(function.__name__, (Function,), {k: staticmethod(v) for k, v in body.items()})
