"""Memory for kernels, on the CPU whatever torch's default device is, and numbers as kernel arguments.

Large results use large pages without any setting. The C library requests a block of more than 32 MB from
the operating system at each call, which maps and clears it page by page. With pages of 2 MiB there are 512
times fewer faults: max pooling 2/2 of 128x64x32x32 with a fresh gradient took 12 ms of processor time
instead of 29 (one thread of an AMD EPYC). torch does the same for its own tensors if
``THP_MEM_ALLOC_ENABLE=1`` is set. Results do not depend on it: a system without such pages refuses.
"""

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

CPU = torch.device("cpu")
PAGE = 1 << 21
"""Bytes of a large page."""
LEAST = 2 * PAGE
"""Bytes of a block that contains a whole large page at any alignment."""
HUGEPAGE = 14
"""MADV_HUGEPAGE in Linux's <asm-generic/mman-common.h>."""
BITS = {torch.bfloat16: torch.uint16, torch.float16: torch.int16}


def empty(
    shape: Sequence[int], dtype: torch.dtype, layout: torch.memory_format = torch.contiguous_format
) -> Tensor:
    """An uninitialised CPU tensor."""
    return _in_large_pages(torch.empty(shape, dtype=dtype, memory_format=layout, device=CPU))


def empty_like(x: Tensor) -> Tensor:
    """An uninitialised tensor like ``x``."""
    return _in_large_pages(torch.empty_like(x))


def _in_large_pages(x: Tensor) -> Tensor:
    size = x.nbytes
    if size >= LEAST:
        ask_for_large_pages(x.data_ptr(), size)
    return x


def ask_for_large_pages(address: int, size: int) -> None:
    """Advise the operating system to use large pages for ``size`` bytes from ``address``, where they fit."""
    madvise = _madvise()
    begin, end = -(-address // PAGE) * PAGE, (address + size) // PAGE * PAGE
    if madvise is not None and begin < end:
        madvise(begin, end - begin, HUGEPAGE)


@cache
def _madvise() -> Callable[[int, int, int], int] | None:
    """The C library's function; None except on Linux."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        function = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function


def are_small(channels: int, height: int, width: int) -> bool:
    """Whether planes are so small that visiting each takes longer than its work: of a contiguous map of some
    channels a copy with the channels last is pooled, for 4x4 to 7x7 up to twice as fast with 8 channels and
    up to five times with many (AMD EPYC).
    """
    return 1 < height * width < 64 and channels >= 8


def with_channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


def as_planes(x: Tensor) -> Tensor:
    """A contiguous copy, also by its strides where the map has one pixel."""
    return torch.empty(x.shape, dtype=x.dtype, device=CPU).copy_(x)


def scratch(size: int) -> Tensor:
    """``size`` uninitialised bytes."""
    return torch.empty(size, dtype=torch.uint8, device=CPU)


def table(values: Sequence[Any], dtype: torch.dtype) -> Tensor:
    """A CPU tensor of ``values`` for kernels."""
    return torch.tensor(values, dtype=dtype, device=CPU)


@cache
def scalar(value: float, dtype: torch.dtype) -> Any:
    """``value`` as a kernel argument: a number, or the bits of half precision as an integer."""
    number = torch.tensor(value, dtype=dtype, device=CPU)
    return number.view(BITS.get(dtype, dtype)).numpy()[()]


def aligned(size: int) -> int:
    """``size`` rounded up to whole cache lines of 64 bytes."""
    return -(-size // 64) * 64
