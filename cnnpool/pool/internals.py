"""Detects how torch calls an operator: watched, transformed, or recorded in a graph for other runtimes.

All private names of torch that the package uses are here, and none is required: if a version of torch lacks
one, the safe answer is given, and torch's own operators compute the same results more slowly. A graph in
which H and W are symbols must be right at every size: ONNX drops the guards by which ``torch.export``
records decisions made for one size.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.fx import graph_module

# Number of active dispatch modes: FLOP counters, fake tensors, tracers. Each must see torch's operators;
# compiled kernels are used only without one.
_count_modes = getattr(torch._C, "_len_torch_dispatch_stack", None)
# Whether a transform of ``torch.func`` is active: autograd functions must then have two parts; without one
# the faster, merged functions and those with only a backward rule are used.
_transforms_active = getattr(torch._C, "_are_functorch_transforms_active", None)
function_of_code: Any = getattr(graph_module, "_forward_from_src", None)
"""The ``forward`` of a graph's code and of its globals; without it calls stay calls."""


def is_watched() -> bool:
    """Whether a dispatch mode or a trace must see every operator of torch that is called."""
    tracing: bool = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    return _count_modes is None or _count_modes() > 0 or tracing


def is_transforming() -> bool:
    """Whether a transform of ``torch.func``, such as ``vmap`` or ``grad``, is active."""
    return _transforms_active is None or bool(_transforms_active())


def is_exported() -> bool:
    """Whether the call becomes part of a graph for other runtimes, by ``torch.export``, ONNX or a trace.

    There an operator with a standard equivalent becomes that alone; windows are sliced for maps of any size.
    """
    tracing: bool = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    return tracing or torch.compiler.is_exporting()


def holds(condition: bool) -> bool:
    """Whether ``condition`` can be relied on: in a graph only if it is true at every size."""
    if not is_exported():
        return condition
    if isinstance(condition, Tensor):
        # In a trace the sizes are tensors.
        return False
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return statically_known_true(condition)


def smaller(a: int, b: int) -> int:
    """The smaller size."""
    if isinstance(a, Tensor):
        result: Any = torch.minimum(a, torch.as_tensor(b))
    else:
        result = torch.sym_min(a, b)
    size: int = result
    return size


def log_of(count: int, like: Tensor) -> Any:
    """The natural logarithm of a number of pixels, in a graph as a tensor of the dtype of ``like``."""
    return like.new_full((), count).log() if is_exported() else math.log(count)


def modulo(places: Tensor, length: int) -> Tensor:
    """``places`` % ``length``, whole numbers."""
    # ONNX's remainder takes a tensor of the symbol, not the symbol itself.
    return places % torch.full_like(places, length) if is_exported() else places % length


def repeated(x: Tensor, axis: int, before: int, after: int) -> Tensor:
    """``x`` padded circularly by ``before`` and ``after`` pixels along ``axis``."""
    length = x.shape[axis]
    return x.index_select(axis, modulo(torch.arange(-before, length + after, device=x.device), length))
