"""The private names of torch that the package uses, all of them here and none of them needed.

They tell whether a call is watched or transformed, for which torch has no public name. Where a torch lacks
one, the cautious answer is given: torch's own operators do the work, with the same results, only slower.
"""

import torch

# Number of active dispatch modes: FLOP counters, fake tensors, tracers. Each must see torch's operators; to
# know that there is none lets compiled kernels do the work.
_count_modes = getattr(torch._C, "_len_torch_dispatch_stack", None)
# Whether a transform of ``torch.func`` is active: an autograd function must then come in two parts; to know
# that there is none lets the faster, merged functions and those with only a backward rule do the work.
_transforms_active = getattr(torch._C, "_are_functorch_transforms_active", None)


def is_watched() -> bool:
    """Whether a dispatch mode or a trace must see every operator of torch that is called."""
    tracing: bool = torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    return _count_modes is None or _count_modes() > 0 or tracing


def is_transforming() -> bool:
    """Whether a transform of ``torch.func``, such as ``vmap`` or ``grad``, is active."""
    return _transforms_active is None or bool(_transforms_active())
