"""Settings of the process that make training faster on a CPU; each can be switched off."""

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGEST = 1 << 30


def keep_memory() -> bool:
    """Let the C library keep freed blocks instead of giving those above 32 MB back to the kernel each time.

    Page faults of a fresh block cost several times the copy that fills it. Returns whether it took effect:
    only with glibc.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, LARGEST) and mallopt(M_TRIM_THRESHOLD, LARGEST))
