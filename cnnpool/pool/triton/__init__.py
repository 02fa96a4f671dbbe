"""Kernels for tensors on a GPU, where Triton is installed; their speed has not been measured.

With TRITON_INTERPRET=1 in the environment Triton's interpreter runs them on the CPU, to check their results.
They are operators of torch (``torch.library``), so that ``torch.compile`` keeps them as they are.
"""

import os
from importlib.util import find_spec

from torch import Tensor

from cnnpool.pool import kernels

_installed = find_spec("triton") is not None
_allowed = os.environ.get("CNNPOOL_KERNELS") != "0"
_interpreted = os.environ.get("TRITON_INTERPRET") == "1"


def take(*tensors: Tensor) -> bool:
    """Whether these kernels are to work on ``tensors``; never with CNNPOOL_KERNELS=0 in the environment."""
    if not _installed or not _allowed:
        return False
    for t in tensors:
        if not (t.is_cuda or (_interpreted and t.is_cpu)) or t.dtype not in kernels.DTYPES:
            return False
    return True
