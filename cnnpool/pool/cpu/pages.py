"""Large pages under large results, for programs that set nothing.

The C library takes a block of more than 32 MB from the kernel at each call, which brings it in page by page
and clears each. In pages of 2 MiB there are 512 times fewer faults: max pooling 2/2 of 128x64x32x32 with a
fresh gradient took 12 ms of processor time instead of 29 (one thread of an AMD EPYC). torch does the same for
its own tensors where ``THP_MEM_ALLOC_ENABLE=1`` is set. Nothing depends on it: a kernel without such pages
refuses.
"""

import ctypes
import sys
from collections.abc import Callable
from functools import cache

PAGE = 1 << 21
"""Bytes of a large page."""
LEAST = 2 * PAGE
"""Bytes of a block that has a whole large page in it wherever it begins."""
HUGEPAGE = 14
"""MADV_HUGEPAGE in Linux's <asm-generic/mman-common.h>."""


def ask_for_large_pages(address: int, size: int) -> None:
    """Advise the kernel to bring in ``size`` bytes from ``address`` on in large pages, where these fit."""
    madvise = _madvise()
    begin, end = -(-address // PAGE) * PAGE, (address + size) // PAGE * PAGE
    if madvise is not None and begin < end:
        madvise(begin, end - begin, HUGEPAGE)


@cache
def _madvise() -> Callable[[int, int, int], int] | None:
    """The C library's function; None elsewhere than on Linux."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        function = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return None
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function
