"""The machine: versions, devices, processor and commit, and the allocator's settings."""

import ctypes
import gc
import platform
import subprocess
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import torch

from cnnpool import __version__

Precision = Literal["32-true", "bf16-mixed", "16-mixed"]  # Arithmetic of a training, in Lightning's terms
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGEST = 1 << 30


def environment(device: torch.device) -> dict[str, Any]:
    """Versions, commit, device and threads, as results.json stores them."""
    head, dirty = commit()
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "lightning": version("lightning"),
        "cnnpool": __version__,
        "commit": head,
        "dirty": dirty,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else processor(),
        "threads": torch.get_num_threads(),
    }


def usable(device: str) -> torch.device:
    """The device of this name, with its index; a ValueError lists the available ones if there is none."""
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        found, others = str(error).splitlines()[0], torch.accelerator.device_count()
        kind = torch.accelerator.current_accelerator() if others else None
        names = ["cpu", *(f"{kind}:{n}" for n in range(others))]
        raise ValueError(f"--device {device}: {found}; choose from {', '.join(names)}") from None


def processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def commit() -> tuple[str | None, bool | None]:
    """The checkout's commit, and whether files differ from it; (None, None) if cnnpool runs from a wheel."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None, None
    git = partial(subprocess.run, capture_output=True, text=True, check=True, timeout=10)
    words = ["git", "-C", str(root)]
    try:
        head = git([*words, "rev-parse", "HEAD"]).stdout.strip()
        return head, bool(git([*words, "status", "--porcelain", "--untracked-files=no"]).stdout.strip())
    except (OSError, subprocess.SubprocessError):
        return None, None


def free_memory(root: Path = Path("/")) -> int | None:
    """Bytes that a process may still use without swapping on Linux, in a container's limit (cgroup v2)."""
    try:
        free = 1024 * _numbers(root / "proc/meminfo")["MemAvailable:"]
    except (OSError, ValueError, KeyError):
        return None
    group = root / "sys/fs/cgroup"
    try:
        files = _numbers(group / "memory.stat")
        cached = files["active_file"] + files["inactive_file"]
        limit, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
    except (OSError, ValueError, KeyError):
        # No container, or one without a limit.
        return free
    return min(free, limit - used + cached)


def _numbers(path: Path) -> dict[str, int]:
    return {words[0]: int(words[1]) for words in map(str.split, path.read_text().splitlines()) if words[1:]}


def fast_precision() -> Precision:
    if torch.cuda.is_available():
        return "bf16-mixed" if torch.cuda.is_bf16_supported(including_emulation=False) else "32-true"
    has = torch.cpu.get_capabilities()
    return "bf16-mixed" if has.get("avx512_bf16") or has.get("amx_bf16") else "32-true"


def keep_memory() -> bool:
    """Make the C library keep freed blocks instead of returning those above 32 MB to the kernel each time.

    Page faults in a new block take as much time as the work on it, or several times as much if the kernel
    gives no large pages. ``cnnpool train`` enables it; call it once before your own loop on a CPU. The whole
    process keeps the most memory it ever used. Returns whether it took effect: only with glibc, on Linux.
    """
    libc = _libc()
    return bool(libc and libc.mallopt(M_MMAP_THRESHOLD, LARGEST) and libc.mallopt(M_TRIM_THRESHOLD, LARGEST))


def release_memory(*, garbage: bool = True) -> bool:
    """Return free memory to the kernel, after collecting ``garbage``; returns whether there was any."""
    if garbage:
        gc.collect()
    libc = _libc()
    return bool(libc and libc.malloc_trim(0))


def _libc() -> ctypes.CDLL | None:
    try:
        libc = ctypes.CDLL("libc.so.6")
    except OSError:
        return None
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None
