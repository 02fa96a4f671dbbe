"""Times taken in turn, ratios of them, and bytes kept for the backward pass."""

import statistics
import time
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

Call = Callable[[], object]
TRIES = 3
BLOCK_SECONDS = 5e-4


def in_turn(calls: dict[str, Call], repeat: int) -> dict[str, list[float]]:
    """Seconds per call of each of ``calls``, ``repeat`` times, one after the other and back again.

    A time is the least of a few, so that another process on the same core must interrupt all of them to be
    seen; short calls are timed in blocks.
    """
    blocks = {name: _block(call) for name, call in calls.items()}
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(repeat):
        for name in list(calls) if turn % 2 == 0 else reversed(list(calls)):
            seconds[name].append(min(_seconds(calls[name], blocks[name]) for _ in range(TRIES)))
    return seconds


def _seconds(call: Call, times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - start) / times


def _block(call: Call) -> int:
    # The first calls compile, fill caches and grow the heap.
    once = min(_seconds(call, 1) for _ in range(TRIES))
    return max(1, round(BLOCK_SECONDS / once))


def ratio(upper: list[float], lower: list[float]) -> dict[str, float]:
    """Median and quartiles of the ratios of times taken in the same turn."""
    ratios = [a / b for a, b in zip(upper, lower, strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return {"median": statistics.median(ratios), "q1": low, "q3": high, "n": len(ratios)}


def kept_bytes(function: Callable[[Tensor], Tensor], x: Tensor) -> int:
    """Bytes that autograd keeps from ``function(x)`` for the backward pass, beyond ``x`` itself."""
    kept: dict[int, int] = {}

    def pack(t: Tensor) -> Tensor:
        storage = t.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = function(x)
    kept.pop(x.untyped_storage().data_ptr(), None)
    del y
    return sum(kept.values())


def nbytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of the values of ``tensors``."""
    return sum(t.numel() * t.element_size() for t in tensors)


def copying(count: int) -> Call:
    """A call that moves ``count`` bytes, half of them read and half of them written."""
    source = torch.ones(max(count // 2, 1), dtype=torch.uint8)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)
