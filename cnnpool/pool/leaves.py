"""Operators as single nodes in graphs of ``torch.fx``, as torch's own functions and modules are there."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, Self, TypeVar

from torch import nn
from torch.fx import Proxy
from torch.overrides import handle_torch_function

P = ParamSpec("P")
T = TypeVar("T")


def symbol(given: tuple[Any, ...], named: dict[str, Any]) -> Proxy | None:
    """The first argument that stands for a tensor while ``torch.fx`` traces; None outside of a trace."""
    for value in (*given, *named.values()):
        if isinstance(value, Proxy):
            return value
    return None


def one_node(function: Callable[P, T]) -> Callable[P, T]:
    """``function``, whose call ``torch.fx`` records without looking inside."""

    @wraps(function)
    def call(*given: P.args, **named: P.kwargs) -> T:
        proxy = symbol(given, named)
        if proxy is None:
            return function(*given, **named)
        node: T = handle_torch_function(call, (proxy,), *given, **named)
        return node

    return call


class Leaf(nn.Module):
    """A module whose call ``torch.fx`` records without looking inside; traced alone, the graph calls it."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "forward" in vars(cls):
            cls.forward = _recorded(cls.forward)

    @property
    def whole(self) -> Self:
        """Itself, by a name: a graph knows what it calls by the attribute of the module that was traced."""
        return self

    def __call__(self, *given: Any, **named: Any) -> Any:
        proxy = symbol(given, named)
        if proxy is None:
            return super().__call__(*given, **named)
        tracer: Any = proxy.tracer
        # Here and not in ``forward`` alone: hooks run when the graph does, and would do so twice.
        return tracer.call_module(self, self.forward, given, named)


def _recorded(forward: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(forward)
    def call(self: Leaf, *given: Any, **named: Any) -> Any:
        proxy = symbol(given, named)
        if proxy is None:
            return forward(self, *given, **named)
        tracer: Any = proxy.tracer
        return tracer.create_proxy("call_module", tracer.path_of_module(self) or "whole", given, named)

    return call
