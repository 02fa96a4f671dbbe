"""The suite of pooling operators: every operator and rival on maps of several sizes, types and layouts."""

import statistics
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.testing import assert_close

from cnnpool.bench.measure import (
    CPU,
    STEPS,
    Call,
    copying,
    in_turn,
    kept_bytes,
    nbytes,
    ratio,
    replays,
    singles,
)
from cnnpool.bench.rivals import DUELS, Function

ON_CPU = [(1, 8, 8, 8), (32, 16, 14, 14), (128, 32, 28, 28), (128, 64, 32, 32)]
ON_GPU = [(1, 8, 8, 8), (128, 64, 32, 32), (64, 64, 112, 112), (128, 256, 28, 28)]
MORE_ON_CPU = [(8, 16, 8, 8), (64, 256, 8, 8), (1, 64, 112, 112), (32, 64, 112, 112)]
MORE_ON_GPU = [(32, 16, 14, 14), (256, 512, 8, 8), (8, 96, 55, 57)]
SHAPES = {
    "cpu": {"small": [(8, 16, 8, 8), (128, 32, 28, 28)], "default": ON_CPU, "all": ON_CPU + MORE_ON_CPU},
    "cuda": {"small": ON_GPU[:2], "default": ON_GPU, "all": ON_GPU + MORE_ON_GPU},
}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


class Case(NamedTuple):
    operator: str
    shape: tuple[int, int, int, int]
    dtype: str
    layout: str


def cases(shapes: str, only: list[str], device: torch.device = CPU) -> list[Case]:
    """All cases of ``shapes``, or those of the operators ``only``, by full name or its first word."""
    known = [*DUELS, *{name.split()[0]: None for name in DUELS}]
    for name in only:
        if name not in known:
            raise ValueError(f"--only: no operator {name!r}; choose from {', '.join(known)}")
    operators = [name for name in DUELS if not only or name in only or name.split()[0] in only]
    return [
        Case(operator, shape, dtype, layout)
        for operator in operators
        for shape in SHAPES[device.type][shapes]
        for layout in LAYOUTS
        for dtype in DTYPES
    ]


def measure(case: Case, repeat: int, device: torch.device = CPU, rival: str = "eager") -> dict[str, Any]:
    """One row of the results: times in milliseconds, ratios, bytes saved; or the reason in ``missing``.

    On the CPU also ``single`` calls, timed individually, with their 90th percentile and page faults, and
    ``scaling``, the speed-up of cnnpool over one thread. On a GPU, which must be the current one,
    also the times ``replayed`` from CUDA graphs, without launching.
    """
    duel = DUELS[case.operator]
    row: dict[str, Any] = {**case._asdict(), "rival": duel.rival + ", torch.compile" * (rival == "compile")}
    try:
        theirs = duel.theirs(case.shape[1])
    except ImportError as error:
        return row | {"missing": str(error)}
    x = _map(case, duel.positive, device)
    pair = duel.ours(case.shape[1]), theirs
    ours, theirs = (side.to(x) if isinstance(side, torch.nn.Module) else side for side in pair)
    _agree(case, ours, theirs, x)
    if rival == "compile":
        # Recompile for each shape.
        torch.compiler.reset()
        theirs = torch.compile(theirs, dynamic=False)
    y = ours(x).detach()
    grad = torch.randn_like(y)
    kept = kept_bytes(ours, x), kept_bytes(theirs, x)
    # Forward reads x and writes y; backward reads the gradient of y and writes that of x; saved tensors are
    # written once and read once.
    copy = copying(2 * nbytes([x, y]) + 2 * kept[0], device)

    def steps() -> dict[str, Call]:
        return {"ours": _step(ours, x, grad), "rival": _step(theirs, x, grad), "copy": copy}

    calls = steps()
    if device.type == "cpu" and torch.get_num_threads() > 1:
        calls["one_thread"] = _on_one_thread(calls["ours"])
    seconds = in_turn(calls, repeat, device)
    row |= {**_figures(seconds), "kept": {"ours": kept[0], "rival": kept[1]}}
    if "one_thread" in seconds:
        row["scaling"] = ratio(seconds["one_thread"], seconds["ours"])
    if device.type == "cuda":
        return row | _replayed(steps(), repeat, device)
    return row | {"single": singles({name: calls[name] for name in ("ours", "rival")}, 2 * repeat)}


def _figures(seconds: dict[str, list[float]]) -> dict[str, Any]:
    return {
        "ms": {name: 1e3 * statistics.median(times) for name, times in seconds.items()},
        "speedup": ratio(seconds["rival"], seconds["ours"]),
        "over_bound": ratio(seconds["ours"], seconds["copy"]),
    }


def _replayed(steps: dict[str, Call], repeat: int, device: torch.device) -> dict[str, Any]:
    try:
        calls = replays(steps)
    except RuntimeError as error:
        return {"replayed": None, "not_replayed": str(error)}
    return {"replayed": _figures(in_turn(calls, repeat, device, STEPS))}


def _map(case: Case, positive: bool, device: torch.device) -> Tensor:
    torch.manual_seed(0)
    x = torch.randn(case.shape)
    x = x.relu() + 0.01 if positive else x
    x = x.to(DTYPES[case.dtype]).contiguous(memory_format=LAYOUTS[case.layout])
    return x.to(device).requires_grad_()


def _step(function: Function, x: Tensor, grad: Tensor) -> Call:
    # A separate leaf: autograd accumulates gradients on the stream that first used one, and a recording
    # must not use the stream of earlier steps.
    x = x.detach().requires_grad_()
    return lambda: torch.autograd.grad(function(x), x, grad)


def _on_one_thread(call: Call) -> Call:
    threads = torch.get_num_threads()

    def alone() -> None:
        torch.set_num_threads(1)
        call()
        torch.set_num_threads(threads)

    return alone


def _agree(case: Case, ours: Function, theirs: Function, x: Tensor) -> None:
    # Away from the borders, where rivals pad differently.
    # On a GPU, float32 convolutions use ten fraction bits.
    tolerance = (3e-3 if x.is_cuda else 1e-5) if x.dtype == torch.float32 else 3e-2
    small = x.detach()[:1]
    a, b = ours(small).float(), theirs(small).float()
    if DUELS[case.operator].random:
        away, error = (a.mean() - b.mean()).abs(), (a.var() + b.var()).div(a.numel()).sqrt()
        assert away < 6 * error, f"{case}: draws are {away} apart on average, {error} being usual"
        return
    down, across = (min(m, n) for m, n in zip(a.shape[2:], b.shape[2:], strict=True))
    inner = (..., slice(1, down - 1), slice(1, across - 1))
    assert_close(a[inner], b[inner], rtol=tolerance, atol=tolerance, msg=lambda m: f"{case}: {m}")
