"""Settings of the process that make training faster on a CPU; each can be switched off."""

import ctypes
import sys

import torch

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGEST = 1 << 30


def fast_precision() -> str:
    """bf16-mixed where the device multiplies bf16 in hardware, else 32-true."""
    if torch.cuda.is_available():
        return "bf16-mixed" if torch.cuda.is_bf16_supported(including_emulation=False) else "32-true"
    # Older torch cannot tell what a processor has.
    has = getattr(torch.cpu, "get_capabilities", dict)()
    return "bf16-mixed" if has.get("avx512_bf16") or has.get("amx_bf16") else "32-true"


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
