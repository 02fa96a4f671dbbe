"""The downsampling modules of a model and their inputs, found by a dry run."""

import re
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from cnnpool.as_found import examined
from cnnpool.pool import Pool1d, Pool2d, Pool3d
from cnnpool.pool.window import integer
from cnnpool.readout import Readout
from cnnpool.surgery.dense import ends_in_channels, merges

Where = str | Callable[[str, nn.Module], bool] | None


def _of_torch(*names: str) -> tuple[type[nn.Module], ...]:
    """torch's modules of these names for sequences, maps and volumes."""
    return tuple(getattr(nn, f"{name}{axes}d") for name in names for axes in (1, 2, 3))


WINDOWED = (*_of_torch("MaxPool", "AvgPool", "LPPool"), Pool1d, Pool2d, Pool3d)
ADAPTIVE = _of_torch("AdaptiveAvgPool", "AdaptiveMaxPool")
CONVOLUTION = _of_torch("Conv")


@dataclass
class Target:
    """A module of the model, and the map it received and returned at each call of the dry run."""

    name: str
    module: nn.Module
    keyword: bool = False
    """Whether a call named its input."""
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)

    @property
    def kind(self) -> str | None:
        """pool, conv or head; None if the module does not shrink its map, or not by whole steps.

        A pooling is a head if it returns a single pixel due to a fixed size or a window that covers the map.
        """
        module, before, after = self.module, self.inputs[0].shape[2:], self.outputs[0].shape[2:]
        if merges(module):
            return "conv"
        if isinstance(module, CONVOLUTION):
            return "conv" if max(self.stride) > 1 else None
        if not pools(module):
            return None
        if after.numel() == 1 and (isinstance(module, Readout) or _sized(module) or _covers(module, before)):
            return "head"
        uneven = _sized(module) and any(old % new for old, new in zip(before, after, strict=True))
        return None if isinstance(module, Readout) or uneven or after == before else "pool"

    @property
    def stride(self) -> tuple[float, ...]:
        """Stride of each axis; for a module without one, the ratio of input to output size."""
        if merges(self.module):
            return (2, 2)
        if not hasattr(self.module, "stride"):
            sizes = zip(self.inputs[0].shape[2:], self.outputs[0].shape[2:], strict=True)
            return tuple(old // new if old // (old // new) == new else old / new for old, new in sizes)
        # LPPool2d stores None for a stride that equals the kernel.
        return each_axis(self.module.stride or self.module.kernel_size, self.axes)

    @property
    def axes(self) -> int:
        """1 for sequences, 2 for maps, 3 for volumes."""
        return self.inputs[0].ndim - 2


def each_axis(value: Any, axes: int) -> tuple[Any, ...]:
    """A setting of torch's modules, one number or one per axis, as one per axis."""
    values = tuple(value) if isinstance(value, tuple | list) else (value,)
    whole = ((integer(one), one) for one in (values * axes if len(values) == 1 else values))
    return tuple(one if number is None else number for number, one in whole)


def pools(module: nn.Module) -> bool:
    """Whether ``module`` is a pooling, including global ones."""
    # Modules of other packages are recognised by name: timm's SelectAdaptivePool2d, several BlurPools.
    known = (*WINDOWED, *ADAPTIVE, nn.FractionalMaxPool2d, nn.FractionalMaxPool3d, Readout)
    return isinstance(module, known) or type(module).__name__.startswith(("SelectAdaptivePool", "BlurPool"))


KINDS = ("max_pool", "avg_pool", "lp_pool", "fractional_max_pool", "adaptive_max_pool", "adaptive_avg_pool")
FUNCTIONS = {f"{kind}{axes}d{end}" for kind in KINDS for axes in (1, 2, 3) for end in ("", "_with_indices")}


class Watch(TorchFunctionMode):
    """Watches the calls of torch's functions and of modules during a dry run."""

    def enter(self, module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Forward pre-hook of every module."""
        raise NotImplementedError

    def leave(self, module: nn.Module, given: tuple[Any, ...], output: Any) -> None:
        """Forward hook of every module."""
        raise NotImplementedError


class FunctionalPooling(Watch):
    """Counts pooling by calls, outside of pooling modules, that shrinks a map to more than one pixel."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.names = {module: name for name, module in model.named_modules()}
        self.running: list[nn.Module] = []
        self.calls: Counter[tuple[str, str]] = Counter()

    def enter(self, module: nn.Module, *_: Any) -> None:
        self.running.append(module)

    def leave(self, *_: Any) -> None:
        self.running.pop()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "").lstrip("_")
        x = args[0] if args else (kwargs or {}).get("input")
        if name in FUNCTIONS and isinstance(x, Tensor) and not any(map(pools, self.running)):
            output = result[0] if isinstance(result, tuple) else result
            if 1 < output.shape[2:].numel() < x.shape[2:].numel():
                where = self.names[self.running[-1]] if self.running else ""
                self.calls[name, where] += 1
        return result

    def __str__(self) -> str:
        """2 calls of max_pool2d in features; empty without any."""
        return ", ".join(
            f"{count} call{'s' * (count > 1)} of {name} in {where or 'the model itself'}"
            for (name, where), count in self.calls.items()
        )


def dry_run(
    model: nn.Module, example: Tensor, watch: Watch | None = None, new: Container[nn.Module] = ()
) -> list[Target]:
    """Modules that map a feature map to a tensor, in the order of their last call, with inputs and outputs.

    In evaluation mode, watched by ``watch``. ValueError if the model fails, or an operator among the ``new``
    returns another map than it says.
    """
    refuse_opaque(model, example)
    # A network for images may contain token sequences, which are not maps.
    dimensions = (4,) if example.ndim == 4 else (3, 4, 5)
    unbatched: list[str] = []
    targets: dict[nn.Module, Target] = {}
    names = {module: dotted for dotted, module in model.named_modules()}
    weights = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)

    def record(module: nn.Module, args: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
        if getattr(module, "return_indices", False):
            output = output[0]
        x = next(iter((*args, *named.values())), None)
        _refuse_fault(module, x, output, new)
        if not isinstance(x, Tensor) or not isinstance(output, Tensor):
            return
        if x.ndim == example.ndim and type(module).__name__.endswith(f"{x.ndim - 1}d"):
            unbatched.append(f"example must be a batch, {BATCHES}, got {tuple(example.shape)}")
        if x.ndim in dimensions:
            target = targets.pop(module, None) or Target(names[module], module)
            targets[module] = target
            target.keyword |= not args
            maps = (_empty(x, weights), _empty(output, weights))
            before, after = (x.movedim(-1, 1) for x in maps) if ends_in_channels(module) else maps
            target.inputs.append(before)
            target.outputs.append(after)

    with ExitStack() as stack:
        for module in names:
            hooks = [module.register_forward_hook(record, with_kwargs=True)]
            if watch is not None:
                hooks.append(module.register_forward_pre_hook(watch.enter, with_kwargs=True))
                hooks.append(module.register_forward_hook(watch.leave))
            for hook in hooks:
                stack.callback(hook.remove)
        # Hooks do not fire inside compiled graphs.
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        try:
            for context in (examined(model), torch.no_grad(), watch or nullcontext()):
                stack.enter_context(context)
            model(example)
        # Third-party forward methods may raise any exception.
        except Exception as error:
            reason = f"the model does not run on an example {tuple(example.shape)}: {line_of(error)}"
            raise ValueError(unbatched[0] if unbatched else reason) from error
    if unbatched:
        raise ValueError(unbatched[0])
    return list(targets.values())


def _refuse_fault(module: nn.Module, x: object, output: object, new: Container[nn.Module]) -> None:
    if not isinstance(module, Pool2d) or module not in new or not isinstance(x, Tensor):
        return
    if fault := module.fault_of(x, output):
        raise ValueError(f"{type(module).__name__} {fault}")


def _empty(x: Tensor, weights: torch.dtype) -> Tensor:
    """None of the maps ``x``; under autocast in the type of the ``weights``, which is then not the maps'."""
    kind = x.device.type
    cast = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    return x[:0].to(weights if cast and x.is_floating_point() else x.dtype, copy=True)


def line_of(error: Exception) -> str:
    """The message of ``error`` in one line, after its type if that is informative."""
    kind = [] if isinstance(error, RuntimeError | ValueError) else [f"{type(error).__name__}:"]
    return " ".join([*kind, *str(error).split()])


def tensors(found: Any) -> Iterator[Tensor]:
    """The tensors in nested lists, tuples and dictionaries."""
    if isinstance(found, Tensor):
        yield found
    elif isinstance(found, dict | list | tuple):
        for each in found.values() if isinstance(found, dict) else found:
            yield from tensors(each)


AS_MODULES = "cnnpool.as_modules makes modules of them where forward has no branch"
BATCHES = "images (N, C, H, W), sequences (N, C, L) or volumes (N, C, D, H, W)"


def refuse_opaque(model: nn.Module, example: Tensor) -> None:
    """Raise ValueError for an example that is not a batch, and a model whose parts cannot be traced."""
    if not isinstance(example, Tensor) or example.ndim not in (3, 4, 5) or not len(example):
        shape = tuple(example.shape) if isinstance(example, Tensor) else f"a {type(example).__name__}"
        if isinstance(example, dict | list | tuple):
            shape = f"{shape}: give the part of the model that takes one tensor, such as model.backbone"
        raise ValueError(f"example must be a tensor, {BATCHES}, got {shape}")
    if not isinstance(model, nn.Module):
        raise ValueError(f"the model must be a torch.nn.Module, got a {type(model).__name__}")
    for dotted, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            raise ValueError(f"{dotted or 'the model'} is scripted: swap and measure it before scripting")


def refuse_compiled(model: nn.Module) -> None:
    """Raise ValueError for a model with a compiled part, and name it."""
    for dotted, module in model.named_modules():
        if hasattr(module, "_orig_mod") or getattr(module, "_compiled_call_impl", None) is not None:
            raise ValueError(f"{dotted or 'the model'} is compiled by torch.compile: swap before compiling")


def select(
    targets: list[Target], where: Where, reads_out: bool, functional: FunctionalPooling | None = None
) -> list[Target]:
    """The targets of the right kind that ``where`` selects, none inside another; ValueError without any."""
    kinds = ("head",) if reads_out else ("conv", "pool")
    every = [target for target in targets if target.kind in kinds]
    found = [target for target in every if target.name]
    if where in ("pool", "conv", "head"):
        chosen = [target for target in found if target.kind == where]
    elif isinstance(where, str):
        chosen = [target for target in found if pattern(where).search(target.name)]
    elif where is not None:
        chosen = [target for target in found if where(target.name, target.module)]
    else:
        chosen = found
    inner = {child for target in chosen for child in target.module.modules() if child is not target.module}
    chosen = [target for target in chosen if target.module not in inner]
    if not chosen and every and not found:
        root = type(every[0].module).__name__
        raise ValueError(f"the model is itself the {root} and has no place for another: wrap it in a module")
    if not chosen:
        # Pooling to one pixel is not among the calls.
        calls = str(functional or "") or "any calls of torch.nn.functional" * reads_out
        more = f" besides {calls} ({AS_MODULES})" * bool(calls)
        there = ", ".join(target.name for target in found) or f"none{more}"
        asked = "" if where is None else f" where={where!r}"
        raise ValueError(f"nothing to replace{asked}; modules of kind {'/'.join(kinds)}: {there}")
    return chosen[-1:] if reads_out and where in (None, "head") else chosen


def pattern(where: str) -> re.Pattern[str]:
    """The regular expression ``where``; ValueError if it is invalid."""
    try:
        return re.compile(where)
    except re.error as error:
        raise ValueError(f"where={where!r} is not a regular expression: {error}") from error


def _covers(module: nn.Module, size: Sequence[int]) -> bool:
    """Whether a single window of the pooling ``module`` covers a map of ``size``, which exceeds one pixel."""
    learns = next(module.parameters(), None) is not None
    if learns or not isinstance(module, WINDOWED) or not hasattr(module, "kernel_size"):
        return False
    settings = (module.kernel_size, getattr(module, "dilation", 1))
    sides = zip(size, *(each_axis(each, len(size)) for each in settings), strict=True)
    return max(size) > 1 and all(d * (k - 1) + 1 >= length for length, k, d in sides)


def _sized(module: nn.Module) -> bool:
    """Whether the output size of ``module`` is fixed."""
    return isinstance(module, ADAPTIVE) or type(module).__name__.startswith("SelectAdaptivePool")


def limited(targets: list[Target], min_channels: int, skip_stem: bool) -> list[Target]:
    """The targets without the stem, if skipped, and those of few channels; ValueError if none is left."""
    kept = [target for target in targets[skip_stem:] if target.inputs[0].shape[1] >= min_channels]
    if not kept:
        given = ["skip_stem=True"] * skip_stem + [f"min_channels={min_channels}"] * (min_channels > 0)
        found = ", ".join(f"{target.name} ({target.inputs[0].shape[1]} channels)" for target in targets)
        raise ValueError(f"nothing is left to replace of {found} with {', '.join(given)}")
    return kept


def unrecognised(seen: Sequence[Target], functional: FunctionalPooling) -> list[str]:
    """Names of the innermost downsampling modules, to 3/4 a side or less, that ``swap`` does not know."""
    calling = {where for _, where in functional.calls}
    known = {target.module for target in seen if target.kind}
    known |= {module for module, name in functional.names.items() if name in calling}
    # Without padding a convolution loses a border.
    convolutions = [target for target in seen if isinstance(target.module, CONVOLUTION)]
    known |= {c.module for c in convolutions if c.inputs[0].shape[2:] != c.outputs[0].shape[2:]}
    names = []
    for target in seen:
        before, after = target.inputs[0], target.outputs[0]
        # For sequences, a linear layer's features are on the axis of the length.
        if known & set(target.module.modules()) or after.ndim != before.ndim or target.axes == 1:
            continue
        if all(1 < new <= 0.75 * old for new, old in zip(after.shape[2:], before.shape[2:], strict=True)):
            known.add(target.module)
            names.append(target.name)
    return list(filter(None, names))
