"""The only private names of torch that the package asks: they tell what else is going on around a call.

No public name tells it. Without one of them, in a torch to come, the answer is the careful one: torch's own
operators do the work, more slowly, and the results are the same.
"""

import torch

# How many dispatch modes are active: FLOP counters, fake tensors, tracers. Each must see torch's operators.
_count_modes = getattr(torch._C, "_len_torch_dispatch_stack", None)
# Whether a transform of ``torch.func`` is active: an autograd function must then come in two parts.
_transforms_active = getattr(torch._C, "_are_functorch_transforms_active", None)


def is_watched() -> bool:
    """Whether a dispatch mode or a trace must see every operator of torch that is called."""
    tracing: bool = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    return _count_modes is None or _count_modes() > 0 or tracing


def is_transforming() -> bool:
    """Whether a transform of ``torch.func``, such as ``vmap`` or ``grad``, is active."""
    return _transforms_active is None or bool(_transforms_active())
