"""The choice between torch's operators and our kernels, made here for all operators.

Kernels process plain tensors, by Numba on the CPU and by Triton on a GPU; all others use torch's operators,
with the same results. The environment variable ``CNNPOOL_KERNELS`` or :func:`use` decide: 0 never, 1 wherever
kernels can work, and by default wherever they are faster than torch's own. With ``TRITON_INTERPRET=1``
Triton's interpreter runs its kernels on the CPU, to check their results.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from cnnpool.pool.internals import is_transforming, is_watched
from cnnpool.pool.window import FLOATING, is_channels_last

# Modules of ``cnnpool.pool.gpu``; ``cnnpool.pool.cpu`` has modules of the same names, and more.
ON_GPU = {"linear", "max", "max_blur", "multinomial", "phases", "window_means"}
# Triton's kernels unroll windows, so windows of more cells use torch's operators.
MOST_CELLS_ON_GPU = 64
# A winner is stored in one byte; multinomial needs one more value, for no winner.
MOST_CELLS_ON_CPU = {"max": 255, "multinomial": 254}


class Limits(NamedTuple):
    """Numbers of elements below which torch's own operator is faster, forward and backward, on one thread."""

    contiguous: int
    channels_last: int
    channels_last_bfloat16: int = 1 << 15


MAX_TILES, MAX_OVERLAPPING = Limits(1 << 14, 1 << 16), Limits(1 << 15, 1 << 17)
AVERAGE = Limits(1 << 14, 1 << 17)
# The same for every map on a GPU, where launching a kernel takes longer than its work.
LIMIT_ON_GPU = 1 << 24

_numba = find_spec("numba") is not None and os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
_triton = find_spec("triton") is not None and os.environ.get("CNNPOOL_KERNELS") != "0"
_interpreted = os.environ.get("TRITON_INTERPRET") == "1"
_wanted: bool | None = {"0": False, "1": True}.get(os.environ.get("CNNPOOL_KERNELS", "")) if _numba else False


@contextmanager
def use(wanted: bool | None) -> Iterator[None]:
    """Use CPU kernels never (False), wherever possible (True; a ValueError without Numba), or where faster
    (None).
    """
    global _wanted
    if wanted and not _numba:
        raise ValueError("compiled kernels need numba: pip install numba, without NUMBA_DISABLE_JIT")
    before, _wanted = _wanted, wanted if _numba else False
    try:
        yield
    finally:
        _wanted = before


def kernels_in_use() -> str:
    """The operators that compiled kernels compute on the CPU: ``none``, ``all`` or the ``faster`` ones.

    The last bits of a training's results depend on it.
    """
    return "faster" if _wanted is None else "all" if _wanted else "none"


def kernels(stem: str, *tensors: Tensor, cells: int = 1) -> Any:
    """The module of kernels called ``stem`` for ``tensors`` on one device, or None for torch's own operators;
    ``cells`` are those of a window.
    """
    for_gpu = _triton and stem in ON_GPU and cells <= MOST_CELLS_ON_GPU
    if is_transforming():
        return None
    if torch.compiler.is_compiling():
        return _traced() if stem == "max" and for_gpu and _fit_gpu(tensors) else None
    if is_watched():
        return None
    if for_gpu and _fit_gpu(tensors) and all(map(is_plain, tensors)):
        return _module("gpu", stem)
    if _wanted is False or cells > MOST_CELLS_ON_CPU.get(stem, cells):
        return None
    for t in tensors:
        if not t.is_cpu or t.dtype not in FLOATING or not is_plain(t):
            return None
    return _module("cpu", stem)


def is_torchs(x: Tensor) -> bool:
    """Whether torch's own operators must compute and differentiate ``x``: under a transform of
    ``torch.func``, or in forward mode.
    """
    if is_transforming():
        return True
    return not torch.compiler.is_compiling() and forward_ad.unpack_dual(x).tangent is not None


def torch_suffices(x: Tensor, limits: Limits) -> bool:
    """Whether torch's own operator is the only one, or faster: on a small map calling a kernel takes longer
    than its work.
    """
    if is_torchs(x):
        return True
    count = x.numel()
    if count >= LIMIT_ON_GPU or _wanted is not None or torch.compiler.is_compiling():
        return False
    if x.is_cuda:
        # torch's own gradients are not deterministic.
        return x.dtype in FLOATING and not torch.are_deterministic_algorithms_enabled()
    if count >= limits.contiguous:
        if x.dim() != 4 or not is_channels_last(x):
            return False
        # torch parallelises maps this small; our kernels do not.
        limit = limits.channels_last_bfloat16 if x.dtype is torch.bfloat16 else limits.channels_last
        if count >= limit << (torch.get_num_threads() > 1):
            return False
    return x.dtype in FLOATING and x.is_cpu


def _fit_gpu(tensors: tuple[Tensor, ...]) -> bool:
    return all((t.is_cuda or (_interpreted and t.is_cpu)) and t.dtype in FLOATING for t in tensors)


def is_plain(t: Tensor) -> bool:
    """Whether a kernel may read the memory of ``t`` directly."""
    # A subclass may behave differently; a lazily negated tensor holds numbers of the wrong sign. Kernels
    # have no rule for forward mode.
    if type(t) is not Tensor or t.is_neg() or forward_ad.unpack_dual(t).tangent is not None:
        return False
    try:
        # Wrappers of ``torch.func`` and sparse tensors have no address; zeros of forward mode have address 0.
        return t.data_ptr() != 0
    except RuntimeError:
        return False


def may_be_negative(x: Tensor) -> bool:
    """Whether an element of ``x`` is negative; true where its numbers cannot be read, as in a graph."""
    recorded = is_watched() or is_transforming() or torch.compiler.is_compiling()
    if recorded or not is_plain(x) or (x.is_cuda and torch.cuda.is_current_stream_capturing()):
        return True
    return bool((x.detach() < 0).any())


def _traced() -> ModuleType:
    # The one module whose kernels torch's compiler knows. The compiler can trace this import, but no other.
    from cnnpool.pool.gpu import max

    return max


@cache
def _module(device: str, stem: str) -> ModuleType:
    if device == "gpu":
        return import_module(f"cnnpool.pool.gpu.{stem}")
    return import_module(f"cnnpool.pool.cpu.{stem}")
