"""Compiled kernels for plain tensors on the CPU; all others take torch's operators, with the same results.

The environment variable ``CNNPOOL_KERNELS`` or :func:`use` decide: 0 never, 1 wherever they can work, and by
default wherever they are also faster than torch's own.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cnnpool.pool.window import Window, is_channels_last


class Quick(NamedTuple):
    """Numbers in a map below which torch's own operator ends sooner, forward and backward, on one thread."""

    contiguous: int
    last: int
    last_bfloat16: int = 1 << 15


MAXIMA, OVERLAPPING_MAXIMA = Quick(1 << 14, 1 << 16), Quick(1 << 15, 1 << 17)
MEANS = Quick(1 << 14, 3 << 15)

# The same of all on a GPU, which ends before the next call; but where bits must repeat, torch's do not.
QUICK_GPU = 1 << 24

DTYPES = {torch.float32, torch.float64, torch.bfloat16, torch.float16}

_installed = find_spec("numba") is not None and os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
_wanted: bool | None = (
    {"0": False, "1": True}.get(os.environ.get("CNNPOOL_KERNELS", "")) if _installed else False
)


@contextmanager
def use(wanted: bool | None) -> Iterator[None]:
    """Within this context kernels work never, wherever they can, or (None) wherever they are faster too.

    Raises:
        ValueError: if they are wanted and Numba is not installed, or switched off.
    """
    global _wanted
    if wanted and not _installed:
        raise ValueError("compiled kernels need numba: pip install numba, without NUMBA_DISABLE_JIT")
    before, _wanted = _wanted, wanted if _installed else False
    try:
        yield
    finally:
        _wanted = before


def take(*tensors: Tensor) -> bool:
    """Whether compiled kernels are to work on ``tensors``: real memory that nothing watches or transforms."""
    if _wanted is False or torch.compiler.is_compiling():
        return False
    if torch._C._len_torch_dispatch_stack() or torch._C._get_tracing_state() is not None:
        return False
    for t in tensors:
        if type(t) is not Tensor or t.dtype not in DTYPES or not t.is_cpu or not torch._C._has_storage(t):
            return False
    return True


def torch_is_quicker(x: Tensor, quick: Quick) -> bool:
    """Whether torch's own operator ends sooner, on maps smaller than a call of ours."""
    count = x.numel()
    if count >= QUICK_GPU or _wanted is not None or torch.compiler.is_compiling():
        return False
    if x.is_cuda:
        return x.dtype in DTYPES and not torch.are_deterministic_algorithms_enabled()
    if count >= quick.contiguous:
        if x.dim() != 4 or not is_channels_last(x):
            return False
        # Torch's shares out maps of these sizes already, ours larger ones.
        limit = quick.last_bfloat16 if x.dtype is torch.bfloat16 else quick.last
        if count >= limit << (torch.get_num_threads() > 1):
            return False
    return x.dtype in DTYPES and x.is_cpu


def by_torch(operator: Callable[..., Tensor], x: Tensor, window: Window, *options: Any) -> Tensor:
    """``operator`` of torch over ``window``, in float32 where torch would round after every addition."""
    if x.dtype.itemsize == 2 and window.overlaps and x.is_cpu:
        return operator(x.float(), *options).to(x.dtype)
    return operator(x, *options)
