"""Kernels on torch's own threads, each with a share of the rows."""

import ctypes
import threading
from typing import Any

import torch

from cnnpool.pool.cpu.compiling import Kernel, is_unsaved
from cnnpool.pool.cpu.memory import scratch as scratch_memory

# Smaller shares are not worth a thread; a kernel that mostly moves memory needs twice as much.
BYTES_PER_THREAD = 1 << 19
# Largest number of kernels called by one: each fails once if compiled kernels cannot be written.
MOST_KERNELS = 100


class _Room(threading.local):
    """Scratch memory that a thread reuses: allocating it takes as long as pooling a small map."""

    LARGEST = 1 << 16

    def __init__(self) -> None:
        self.held = scratch_memory(self.LARGEST)
        self.address = self.held.data_ptr()


Job = tuple[Kernel[..., None], list[tuple[int, ...]], tuple[Any, ...], list[BaseException]]


class _Team:
    """The threads of the OpenMP library that torch has loaded, entered by its public ``GOMP_parallel``.

    Threads of our own would wait for cores where torch's threads spin for milliseconds after each operator.
    As with torch's operators, a forked child must not use more than one thread once its parent has.
    """

    def __init__(self) -> None:
        # The GIL is held: releasing it would take longer than the call.
        asked = ctypes.PyDLL(None)
        self._rank, self._size = asked.omp_get_thread_num, asked.omp_get_num_threads
        self._parallel = ctypes.CDLL(None).GOMP_parallel
        self._member = ctypes.CFUNCTYPE(None, ctypes.py_object)(self._work)

    def run(self, kernel: Kernel[..., None], shares: list[tuple[int, ...]], args: tuple[Any, ...]) -> None:
        """Run ``kernel(*share, *args)`` for every share, then raise the first error."""
        errors: list[BaseException] = []
        # All of torch's threads, however few the shares: a smaller team would terminate the others.
        self._parallel(self._member, ctypes.py_object((kernel, shares, args, errors)), 0, 0)
        for error in errors:
            raise error

    def _work(self, job: Job) -> None:
        kernel, shares, args, errors = job
        try:
            # A team within another has fewer threads than requested.
            for share in shares[self._rank() :: self._size()]:
                kernel(*share, *args)
        except BaseException as error:
            errors.append(error)


def _team() -> _Team | None:
    try:
        return _Team()
    except (AttributeError, TypeError):
        return None


_room = _Room()
TEAM = _team()
"""None if torch's threads cannot be used: the calling thread then takes all shares."""


def spread(
    kernel: Kernel[..., None],
    units: int,
    moved: int,
    *args: Any,
    scratch: int = 0,
    light: bool = False,
) -> None:
    """Run ``kernel(start, stop, *args)`` over ``units`` rows or planes, which move ``moved`` bytes in all;
    ``scratch`` puts the address of so many bytes before ``args``; ``light`` ones do little but move memory.
    """
    least = 2 * BYTES_PER_THREAD if light else BYTES_PER_THREAD
    threads = max(1, min(torch.get_num_threads() if TEAM else 1, units, moved // least))
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
    memory = scratch_memory(scratch * threads) if scratch else None
    if memory is not None:
        first = memory.data_ptr()
        shares = [(*share, first + i * scratch) for i, share in enumerate(shares)]
    if TEAM and threads > 1:
        TEAM.run(kernel, shares, args)
    else:
        kernel(*shares[0], *args)
