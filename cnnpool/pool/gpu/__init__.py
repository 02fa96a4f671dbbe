"""Kernels for tensors on a GPU, where Triton is installed.

With TRITON_INTERPRET=1 in the environment Triton's interpreter runs them on the CPU, to check their results.
"""

import os
from importlib.util import find_spec

import torch
from torch import Tensor

from cnnpool.pool import cpu

# Windows are unrolled, so those of more cells are left to torch.
MOST_CELLS = 64

_installed = find_spec("triton") is not None
_allowed = os.environ.get("CNNPOOL_KERNELS") != "0"
_interpreted = os.environ.get("TRITON_INTERPRET") == "1"


def take(*tensors: Tensor) -> bool:
    """Whether these kernels are to work on ``tensors``: real memory on a GPU that nothing watches or
    transforms; never with CNNPOOL_KERNELS=0 in the environment.
    """
    for t in tensors:
        if not (t.is_cuda or _interpreted) or type(t) is not Tensor:
            return False
    if torch.compiler.is_compiling() or not _fit(*tensors):
        return False
    if torch._C._len_torch_dispatch_stack() or torch._C._get_tracing_state() is not None:
        return False
    return all(map(torch._C._has_storage, tensors))


def trace(*tensors: Tensor) -> bool:
    """Whether ``torch.compile``, at work now, is to put an operator of torch for one of these kernels."""
    return torch.compiler.is_compiling() and _fit(*tensors)


def _fit(*tensors: Tensor) -> bool:
    if not _installed or not _allowed:
        return False
    for t in tensors:
        if not (t.is_cuda or (_interpreted and t.is_cpu)) or t.dtype not in cpu.DTYPES:
            return False
    return True
