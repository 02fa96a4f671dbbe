"""Compiled kernels for plain tensors on the CPU; everything else takes torch's operators, with the same results.

Set the environment variable ``CNNPOOL_KERNELS=0`` to do without them, or use :func:`use`.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import torch
from torch import Tensor

DTYPES = {torch.float32, torch.float64, torch.bfloat16, torch.float16}

_wanted = os.environ.get("CNNPOOL_KERNELS", "1") != "0" and find_spec("numba") is not None


@contextmanager
def use(wanted: bool) -> Iterator[None]:
    """Within this context kernels are used, or not.

    Raises:
        ValueError: if they are wanted and Numba is not installed.
    """
    global _wanted
    if wanted and find_spec("numba") is None:
        raise ValueError("compiled kernels need numba: pip install numba")
    before, _wanted = _wanted, wanted
    try:
        yield
    finally:
        _wanted = before


def take(*tensors: Tensor) -> bool:
    """Whether compiled kernels can work on ``tensors``: real memory that nothing watches or transforms."""
    if not _wanted or torch.compiler.is_compiling():
        return False
    if torch._C._len_torch_dispatch_stack() or torch._C._get_tracing_state() is not None:
        return False
    return all(
        type(t) is Tensor
        and t.device.type == "cpu"
        and t.dtype in DTYPES
        and torch._C._has_storage(t)
        for t in tensors
    )
