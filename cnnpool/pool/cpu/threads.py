"""Kernels on as many threads as torch uses: a share of the rows each, on threads of our own."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from cnnpool.pool.cpu.compiling import Kernel, is_unsaved
from cnnpool.pool.cpu.memory import scratch as scratch_memory

# Smaller shares are not worth a thread; a kernel that mostly moves memory needs twice as much.
BYTES_PER_THREAD = 1 << 19
# Kernels called by one kernel: each fails once where compiled kernels cannot be written.
MOST_KERNELS = 100


class _Room(threading.local):
    """Scratch memory that a thread keeps: to allocate it takes as long as to pool a small map."""

    LARGEST = 1 << 16

    def __init__(self) -> None:
        self.held = scratch_memory(self.LARGEST)
        self.address = self.held.data_ptr()


_room = _Room()
_pool: ThreadPoolExecutor | None = None
_size = 0


def spread(
    kernel: Kernel[..., None],
    units: int,
    moved: int,
    *args: Any,
    scratch: int = 0,
    light: bool = False,
) -> None:
    """``kernel(start, stop, *args)`` over ``units`` rows or planes, which move ``moved`` bytes in all.

    With ``scratch`` the kernel gets the address of so many bytes of its own before ``args``; a
    ``light`` kernel does little but move what it is given. Kernels release the GIL, and the calling thread
    takes the first share itself. torch's own threads are idle meanwhile; ``share_cores`` of the commands
    makes them sleep rather than spin.
    """
    least = 2 * BYTES_PER_THREAD if light else BYTES_PER_THREAD
    threads = max(1, min(torch.get_num_threads(), units, moved // least))
    for left in range(MOST_KERNELS, -1, -1):
        try:
            # On small maps the lists of shares take as long as the work.
            if threads > 1 or scratch > _Room.LARGEST:
                _share(kernel, units, threads, scratch, args)
            elif scratch:
                kernel(0, units, _room.address, *args)
            else:
                kernel(0, units, *args)
            return
        except Exception as error:
            if not left or not is_unsaved(error):
                raise


def _share(kernel: Kernel[..., None], units: int, threads: int, scratch: int, args: tuple[Any, ...]) -> None:
    shares: list[tuple[int, ...]] = [
        (units * i // threads, units * (i + 1) // threads) for i in range(threads)
    ]
    room = scratch_memory(scratch * threads) if scratch else None
    if room is not None:
        first = room.data_ptr()
        shares = [(*share, first + i * scratch) for i, share in enumerate(shares)]
    others = [_workers(threads - 1).submit(kernel, *share, *args) for share in shares[1:]]
    try:
        kernel(*shares[0], *args)
    finally:
        # All of them use ``room``.
        errors = [other.exception() for other in others]
    for error in filter(None, errors):
        raise error


def _workers(count: int) -> ThreadPoolExecutor:
    global _pool, _size
    if _pool is None or _size < count:
        _pool, _size = ThreadPoolExecutor(count, thread_name_prefix="cnnpool"), count
    return _pool


def _forget() -> None:
    # A forked child has none of its parent's threads.
    global _pool, _size
    _pool, _size = None, 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
