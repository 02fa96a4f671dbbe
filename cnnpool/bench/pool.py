"""The suite of pooling operators: each beside its rival, on maps of several sizes, types and layouts."""

import statistics
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from cnnpool import pool, registry
from cnnpool.bench.measure import STEPS, Call, copying, in_turn, kept_bytes, nbytes, ratio, replays, singles

CPU = torch.device("cpu")
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
Function = Callable[[Tensor], Tensor]
EPS = 1e-6


class Duel(NamedTuple):
    """A rival and the corresponding operator: number of channels -> function of a map."""

    rival: str
    ours: Callable[[int], Function]
    theirs: Callable[[int], Function]
    positive: bool = False  # Whether the map is non-negative, as after a ReLU: the rival requires it
    random: bool = False  # Whether both draw: then they are compared on average
    alike: bool = True  # Whether both compute the same


def _timm_blur(filter_size: int) -> Callable[[int], nn.Module]:
    def make(channels: int) -> nn.Module:
        from timm.layers.blur_pool import BlurPool2d

        return BlurPool2d(channels, filter_size, stride=2)

    return make


def _zhang_blur(channels: int) -> nn.Module:
    from antialiased_cnns import BlurPool

    blur: nn.Module = BlurPool(channels, filt_size=3, stride=2)
    return blur


def _timm_max_blur(channels: int) -> nn.Module:
    return nn.Sequential(nn.MaxPool2d(2, 1), _timm_blur(3)(channels))


def _gem(p: Tensor | float) -> Function:
    return lambda x: F.avg_pool2d(x.clamp(min=EPS).pow(p), 2).pow(1 / p)


def _soft(x: Tensor) -> Tensor:
    weight = x.exp()
    return F.avg_pool2d(weight * x, 2) / F.avg_pool2d(weight, 2)


def _draw(x: Tensor) -> Tensor:
    samples, channels, height, width = x.shape
    cells = x.unfold(2, 2, 2).unfold(3, 2, 2).reshape(-1, 4)
    places = torch.multinomial(cells / cells.sum(1, keepdim=True), 1)
    return cells.gather(1, places).view(samples, channels, height // 2, width // 2)


class Learnt:
    """``function`` of a map and a learnt power on the map's device."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]):
        self.function = function
        self.power = cache(lambda device: torch.full((1, 1, 1), 3.0, device=device, requires_grad=True))

    def __call__(self, x: Tensor) -> Tensor:
        return self.function(x, self.power(x.device))


def _functions(rival: str, ours: Function, theirs: Function, **facts: bool) -> Duel:
    return Duel(rival, lambda c: ours, lambda c: theirs, **facts)


def _max(*w: Any) -> Duel:
    return _functions("F.max_pool2d", lambda x: pool.max_pool2d(x, *w), lambda x: F.max_pool2d(x, *w))


def _avg(*w: Any) -> Duel:
    return _functions("F.avg_pool2d", lambda x: pool.avg_pool2d(x, *w), lambda x: F.avg_pool2d(x, *w))


DUELS = {
    "max 2/2": _max(2),
    "max 3/2": _max(3, 2, 1),
    "avg 2/2": _avg(2),
    "avg 3/2": _avg(3, 2, 1),
    "blur 3/2": Duel("timm BlurPool2d", lambda c: pool.blur_pool2d, _timm_blur(3)),
    "blur 3/2 again": Duel("antialiased-cnns BlurPool", lambda c: pool.blur_pool2d, _zhang_blur),
    "blur 5/2": Duel("timm BlurPool2d", lambda c: lambda x: pool.blur_pool2d(x, 5), _timm_blur(5)),
    "max_blur 2/3/2": Duel(
        "MaxPool2d(2, 1), timm BlurPool2d", lambda c: pool.max_blur_pool2d, _timm_max_blur
    ),
    "lp p=3": _functions(
        "F.lp_pool2d", lambda x: pool.lp_pool2d(x, 3.0, 2), lambda x: F.lp_pool2d(x, 3.0, 2), positive=True
    ),
    "gem p=3": _functions(
        "GeM as timm has it", lambda x: pool.gem_pool2d(x, 2, p=3.0, eps=EPS), _gem(3.0), positive=True
    ),
    "gem learnt": Duel(
        "GeM as timm has it",
        lambda c: Learnt(lambda x, p: pool.gem_pool2d(x, 2, p=p, eps=EPS)),
        lambda c: Learnt(lambda x, p: _gem(p)(x)),
        positive=True,
    ),
    "soft": _functions("exp, F.avg_pool2d", lambda x: pool.soft_pool2d(x, 2), _soft, positive=True),
    "stochastic": _functions(
        "unfold, torch.multinomial", lambda x: pool.stochastic_pool2d(x, 2), _draw, positive=True, random=True
    ),
}


def duel_of(operator: str) -> Duel:
    """The operator's named rival; of any other operator the maximum of 2x2 cells, as a yardstick."""
    if operator in DUELS:
        return DUELS[operator]
    rival = "F.max_pool2d, another operator"
    return Duel(rival, lambda c: pool.build(operator, c), lambda c: lambda x: F.max_pool2d(x, 2), alike=False)


class Case(NamedTuple):
    operator: str
    shape: tuple[int, int, int, int]
    dtype: str
    layout: str


def cases(shapes: str, only: list[str], device: torch.device = CPU) -> list[Case]:
    """All cases of ``shapes``, or those of the operators ``only``, by full name or its first word."""
    others = dict.fromkeys(registry.names(pool.OPERATORS, "operators"))
    others = {name: None for name in others if not any(duel.split()[0] == name for duel in DUELS)}
    known = [*DUELS, *{name.split()[0]: None for name in DUELS}, *others]
    for name in only:
        if name not in known:
            raise ValueError(f"--only: no operator {name!r}; {registry.did_you_mean(name, known)}")
    operators = [name for name in DUELS if not only or name in only or name.split()[0] in only]
    operators += [name for name in others if name in only]
    return [
        Case(operator, shape, dtype, layout)
        for operator in operators
        for shape in SHAPES[device.type][shapes]
        for layout in LAYOUTS
        for dtype in DTYPES
    ]


def measure(case: Case, repeat: int, device: torch.device = CPU, rival: str = "eager") -> dict[str, Any]:
    """One row of the results: times in milliseconds, ratios, bytes saved; or the reason in ``missing``.

    On the CPU also ``single`` calls and ``scaling``, the speed-up over one thread; on a GPU, which must be
    the current one, the times ``replayed`` from CUDA graphs, without launching.
    """
    duel = duel_of(case.operator)
    row: dict[str, Any] = {**case._asdict(), "rival": duel.rival + ", torch.compile" * (rival == "compile")}
    try:
        theirs = duel.theirs(case.shape[1])
    except ImportError as error:
        return row | {"missing": str(error)}
    x = _map(case, duel.positive, device)
    pair = duel.ours(case.shape[1]), theirs
    ours, theirs = (side.to(x) if isinstance(side, nn.Module) else side for side in pair)
    if duel.alike:
        _agree(case, ours, theirs, x)
    learnt = [_learnt(side, device) for side in (ours, theirs)]
    if rival == "compile":
        # Recompile for each shape.
        torch.compiler.reset()
        theirs = torch.compile(theirs, dynamic=False)
    y = ours(x).detach()
    try:
        kept = kept_bytes(ours, x), kept_bytes(theirs, x)
    except RuntimeError as error:
        # torch.compile reports a missing compiler at its first call.
        if rival != "compile":
            raise
        return row | {"missing": str(error).splitlines()[0]}
    # Forward reads x and writes y; backward reads the gradient of y and writes that of x; saved tensors are
    # written once and read once.
    copy = copying(2 * nbytes([x, y]) + 2 * kept[0], device)

    def steps() -> dict[str, Call]:
        ours_step, rival_step = (_step(*each, x) for each in zip((ours, theirs), learnt, strict=True))
        return {"ours": ours_step, "rival": rival_step, "copy": copy}

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


def _learnt(side: Function, device: torch.device) -> list[Tensor]:
    return [side.power(device)] if isinstance(side, Learnt) else list(getattr(side, "parameters", list)())


def _step(function: Function, learnt: list[Tensor], x: Tensor) -> Call:
    # A separate leaf: autograd accumulates gradients on the stream that first used one, and a recording
    # must not use the stream of earlier steps.
    x = x.detach().requires_grad_()
    grad = torch.randn_like(function(x).detach())
    return lambda: torch.autograd.grad(function(x), [x, *learnt], grad)


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
