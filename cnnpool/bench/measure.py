"""The machine, alternating timings on it, also replayed on a GPU, and bytes saved for backward."""

import datetime
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from torch import Tensor

from cnnpool import __version__
from cnnpool.system.hardware import commit, keep_memory, processor, usable

try:
    import resource
except ImportError:
    # On Windows.
    resource = None  # type: ignore[assignment]

Call = Callable[[], object]
CPU = torch.device("cpu")
WARM_UP = 3
STEPS = 10  # Steps per CUDA graph, so that its launch does not matter either
_broken: list[torch.cuda.CUDAGraph] = []
TRIES = 3
BLOCK_SECONDS, LEAST_STEPS = {"cpu": 5e-4, "cuda": 5e-3}, {"cpu": 1, "cuda": 10}
"""Seconds and steps per block, which hide the clock's resolution and the wait for a GPU."""


def prepare(threads: int | None, device: str, *, plain: bool = False) -> torch.device:
    """Set up ``device`` with ``threads`` of torch, None for its default, and memory kept unless ``plain``."""
    chosen = usable(device)
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    if threads is not None:
        torch.set_num_threads(threads)
    if not plain:
        keep_memory()
    return chosen


def facts(device: torch.device) -> dict[str, Any]:
    """Hardware, versions, commit and date, as in a results file; the GPU only if it was used."""
    head, dirty = commit()
    names = ("torch", "numba", "timm", "antialiased-cnns")
    gpu: dict[str, str | None] = {}
    if device.type == "cuda":
        gpu["gpu"] = torch.cuda.get_device_name(device)
        gpu |= {"cuda": torch.version.cuda, "triton": _version("triton")}
    return {
        **gpu,
        "processor": processor(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        **{name: _version(name) for name in names},
        "cnnpool": __version__,
        "commit": head and head[:12] + "-dirty" * bool(dirty),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def in_turn(
    calls: dict[str, Call], repeat: int, device: torch.device = CPU, steps: int = 1
) -> dict[str, list[float]]:
    """Seconds per step of each of ``calls``, of ``steps`` steps each, measured ``repeat`` times in turn.

    A time is the minimum of a few blocks, so that another process must interrupt all of them to matter. A GPU
    is synchronised around each, so a time is that of launching or computing, whichever takes longer.
    """
    blocks = {name: _block(call, device, steps) for name, call in calls.items()}
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(repeat):
        for name in list(calls) if turn % 2 == 0 else reversed(list(calls)):
            least = min(_seconds(calls[name], blocks[name], device) for _ in range(TRIES))
            seconds[name].append(least / steps)
    return seconds


def singles(calls: dict[str, Call], count: int) -> dict[str, dict[str, float]]:
    """Median, 90th percentile and page faults of ``count`` single calls of each of ``calls``, in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    faults = dict.fromkeys(calls, 0)
    for _ in range(count):
        for name, call in calls.items():
            before = _page_faults()
            seconds[name].append(_seconds(call, 1, CPU))
            faults[name] += _page_faults() - before
    found = {}
    for name, times in seconds.items():
        found[name] = {
            "median_ms": 1e3 * statistics.median(times),
            "p90_ms": 1e3 * statistics.quantiles(times, n=10, method="inclusive")[-1],
        }
        if resource is not None:
            found[name]["page_faults"] = faults[name] / count
    return found


def _page_faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt if resource is not None else 0


def _seconds(call: Call, times: int, device: torch.device) -> float:
    _wait(device)
    start = time.perf_counter()
    for _ in range(times):
        call()
    _wait(device)
    return (time.perf_counter() - start) / times


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _block(call: Call, device: torch.device, steps: int) -> int:
    least = -(-LEAST_STEPS[device.type] // steps)
    # The first calls compile, fill caches and grow the heap.
    once = min(_seconds(call, least, device) for _ in range(TRIES))
    return max(least, round(BLOCK_SECONDS[device.type] / once))


def ratio(upper: list[float], lower: list[float]) -> dict[str, float]:
    """Median and quartiles of the ratios of times from the same turn."""
    ratios = [a / b for a, b in zip(upper, lower, strict=True)]
    low, _, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return {"median": statistics.median(ratios), "q1": low, "q3": high, "n": len(ratios)}


def kept_bytes(function: Callable[[Tensor], Tensor], x: Tensor) -> int:
    """Bytes that autograd saves from ``function(x)`` for the backward pass, in addition to ``x``."""
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
    return sum(t.numel() * t.element_size() for t in tensors)


def copying(count: int, device: torch.device = CPU) -> Call:
    """A call that copies on ``device`` with ``count`` bytes of traffic, half read and half written."""
    source = torch.ones(max(count // 2, 1), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def replays(steps: dict[str, Call]) -> dict[str, Call]:
    """Calls that replay each of ``steps`` on the current GPU ``STEPS`` times, in its recording's memory."""
    calls = {}
    for name, step in steps.items():
        try:
            calls[name] = _recorded(step)
        except RuntimeError as error:
            # Leaving a failed recording raises another, less informative error.
            first, *_ = str(error.__context__ or error).split("\n")
            raise RuntimeError(f"{name}: {first}") from error
    return calls


def _recorded(step: Call) -> Call:
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    generator = torch.cuda.default_generators[torch.cuda.current_device()]
    numbers = generator.clone_state()
    stream.wait_stream(torch.cuda.current_stream())
    try:
        # Around both: torch.cuda.graph does not restore the current stream when it fails.
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                step()
            with torch.cuda.graph(graph, stream=stream):
                for _ in range(STEPS):
                    step()
    except RuntimeError:
        # Otherwise the generator would stay in recording mode, and the allocator would ask every unfinished
        # graph whether memory belongs to it.
        generator.graphsafe_set_state(numbers)
        _broken.append(graph)
        raise
    torch.cuda.current_stream().wait_stream(stream)
    return graph.replay
