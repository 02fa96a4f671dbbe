"""Carry replacements out: in all places of a model, or in none if it then fails."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from cnnpool.as_found import examined
from cnnpool.pool import Pool2d
from cnnpool.quantity import short
from cnnpool.surgery.behind import Spot
from cnnpool.surgery.statistics import in_batches
from cnnpool.surgery.statistics import recalibrate as measure_statistics
from cnnpool.surgery.trace import Target, dry_run, line_of, tensors

Plan = dict[nn.Module, nn.Module]


@dataclass(frozen=True)
class Change:
    """One replacement: the module's dotted name, the old and the new module.

    With ``after="activation"`` the new module is the operator, and a dense convolution has the name.
    """

    name: str
    before: nn.Module
    after: nn.Module


@dataclass(frozen=True)
class Edit:
    """A change, the modules that it exchanges in the model, and the one that then has the original's map."""

    change: Change
    plan: Plan
    carrier: Target
    spot: Spot | None = None

    def __str__(self) -> str:
        return f"{self.change.name} ({self.spot})" if self.spot else self.change.name


MUCH = 2
"""Factor in cost above which a replacement triggers a cost warning."""


class Cost(NamedTuple):
    """Per image: operations of convolutions and matrix products, and elements that layers return."""

    flops: float
    elements: float


def cost(model: nn.Module, example: Tensor) -> Cost:
    """The cost of ``model`` in evaluation mode, by torch's counter and a hook on every leaf layer."""
    elements = [0]

    def count(module: nn.Module, inputs: Any, output: Any) -> None:
        elements[0] += output.numel() if isinstance(output, Tensor) else 0

    counter = FlopCounterMode(display=False)
    with ExitStack() as stack:
        for layer in model.modules():
            if next(layer.children(), None) is None:
                stack.callback(layer.register_forward_hook(count).remove)
        with examined(model), torch.no_grad(), counter:
            model(example)
    return Cost(counter.get_total_flops() / len(example), elements[0] / len(example))


def costlier(name: str, before: Cost, after: Cost, remedy: str = "") -> str:
    """A sentence on a model that costs much more than before, with a ``remedy``; otherwise empty."""
    if after.flops <= MUCH * before.flops and after.elements <= MUCH * before.elements:
        return ""
    flops, elements = (f"{short(a)} -> {short(b)}" for a, b in zip(before, after, strict=True))
    sentence = (
        f"{name} makes the model more expensive: {flops} FLOPs of convolutions and matrix products, "
        f"{elements} elements of maps an image"
    )
    return f"{sentence}; {remedy}" if remedy else sentence


def carry_out(
    name: str,
    model: nn.Module,
    edits: Sequence[Edit],
    example: Tensor,
    remedy: str,
    images: Tensor | None,
) -> str:
    """Change the model, or leave it as it was and raise; a sentence if it then costs much more.

    On ``images`` the statistics of batch normalisation are measured anew.
    """
    before = cost(model, example)
    plan = {module: after for one in edits for module, after in one.plan.items()}
    verify(edits, plan, _outputs(name, model, plan, edits, example))
    # Before the change: a module of the plan may hold another one.
    former = {module: module.state_dict(keep_vars=True) for module in plan}
    with ExitStack() as undo:
        install(model, plan, undo)
        if images is not None:
            _recalibrate(model, images)
        after = cost(model, example)
        undo.pop_all()
    for module, new in plan.items():
        take_former_names(former[module], new)
        share_hooks(new, module)
    return costlier(name, before, after, remedy)


def _outputs(name: str, model: nn.Module, plan: Plan, edits: Sequence[Edit], x: Tensor) -> list[Target]:
    """The dry run after ``plan``; if it fails, the error names a replacement that fails alone."""
    try:
        return _dry_run_with(model, plan, x)
    except ValueError:
        for one in edits:
            try:
                _dry_run_with(model, one.plan, x)
            except ValueError as error:
                raise ValueError(
                    f"{name} cannot replace {one.change.name}: {error}; leave it out by where="
                ) from error
        raise


def _dry_run_with(model: nn.Module, plan: Plan, example: Tensor) -> list[Target]:
    """The dry run of ``model`` after ``plan``, which is then undone."""
    with ExitStack() as undo:
        install(model, plan, undo)
        # Parts of an operator may have maps of their own kind.
        parts = ((one,) if isinstance(one, Pool2d) else one.children() for one in plan.values())
        new = {*chain.from_iterable(parts)}
        seen, fault = dry_run(model, example, new=new), gradient_fault(model, example)
    if fault and not gradient_fault(model, example):
        raise ValueError(f"the network then has no gradient: {fault}")
    return seen


def gradient_fault(model: nn.Module, example: Tensor) -> str:
    """The error of a backward pass in evaluation mode, which adds to no gradient; empty if there is none."""
    with examined(model), torch.enable_grad():
        # A copy: the first layer may work in place, which a leaf does not allow.
        x = example.detach().clone().requires_grad_(example.is_floating_point()).clone()
        try:
            found = [y for y in tensors(model(x)) if y.requires_grad]
            inputs = [p for p in model.parameters() if p.requires_grad] + [x] * x.requires_grad
            if found:
                torch.autograd.grad([y.sum() for y in found], inputs, allow_unused=True)
        # Hooks may raise any exception.
        except Exception as error:
            return line_of(error)
    return ""


def install(model: nn.Module, plan: Plan, undo: ExitStack) -> None:
    """Replace ``module`` by ``plan[module]`` and move its hooks there; ``undo`` does the opposite."""
    undo.callback(put, model, {after: before for before, after in plan.items()})
    put(model, plan)
    for module, new in plan.items():
        undo.callback(restore_hooks, [(part, hooks_of(part)) for part in (module, *new.modules())])
        move_hooks(module, new)


def put(model: nn.Module, plan: Plan) -> None:
    """Replace ``module`` by ``plan[module]`` everywhere in the model, including its tables of stages."""
    # Children first: a block that goes into another module takes its new children along.
    for dotted, module in reversed(list(model.named_modules(remove_duplicate=False))):
        if module in plan:
            model.set_submodule(dotted, plan[module])
        stages = getattr(module, "stages", None)
        if isinstance(stages, dict):
            for stage, pool in stages.items():
                # A table of that name may hold anything.
                if isinstance(pool, nn.Module) and pool in plan:
                    stages[stage] = plan[pool]


def _recalibrate(model: nn.Module, images: Tensor) -> None:
    batches = in_batches(images)
    try:
        measure_statistics(model, batches)
    except RuntimeError as error:
        raise ValueError(
            f"recalibrate: the model does not run on images {tuple(images.shape)} of {images.dtype}: "
            f"{line_of(error)}"
        ) from error


def verify(edits: Sequence[Edit], plan: Plan, seen: Sequence[Target]) -> None:
    """Raise ValueError where the output of a replacement has another shape than the original's."""
    now = {target.module: [tuple(y.shape[1:]) for y in target.outputs] for target in seen}
    for target in (one.carrier for one in edits):
        before = [tuple(y.shape[1:]) for y in target.outputs]
        after = now.get(plan[target.module])
        if after is None:
            raise ValueError(
                f"{target.name} is not called through this attribute (the model keeps it in a list, or under "
                "another name that is no submodule), so that replacing it changes nothing"
            )
        if after != before:
            raise ValueError(f"{target.name} returned maps {before}, its replacement {after}")


HOOKS = (
    *("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs"),
    *("_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called"),
    *("_backward_pre_hooks", "_backward_hooks"),
)
"""The tables of a module's hooks; their handles refer to the tables, so these are moved, not copied."""


Tables = dict[str, tuple[dict[int, Any], dict[int, Any]]]


def hooks_of(module: nn.Module) -> Tables:
    """Each table of hooks, and a copy of what it holds."""
    return {name: (getattr(module, name), dict(getattr(module, name))) for name in HOOKS}


def restore_hooks(held: Sequence[tuple[nn.Module, Tables]]) -> None:
    """Give modules their tables of hooks again, with what these held."""
    for module, tables in held:
        for name, (table, hooks) in tables.items():
            table.clear()
            table.update(hooks)
            setattr(module, name, table)


def share_hooks(after: nn.Module, before: nn.Module) -> None:
    """Give the module that is replaced its hooks too, for a user who puts it back."""
    if before not in after.modules():
        for name in HOOKS:
            setattr(before, name, getattr(before, name) or getattr(after, name))


def move_hooks(before: nn.Module, after: nn.Module) -> None:
    """Move the hooks of a module to its replacement, except those by which torch computes its parameters."""
    for name in HOOKS:
        table = getattr(before, name)
        own = {key: hook for key, hook in table.items() if type(hook).__module__.startswith("torch.nn.utils")}
        for key in own:
            del table[key]
        for part in (before, *after.modules()):
            if getattr(part, name) is table:
                setattr(part, name, OrderedDict(own))
        setattr(after, name, table)
    after._is_full_backward_hook = before._is_full_backward_hook


def take_former_names(before: Mapping[str, Any], after: nn.Module) -> None:
    """Let ``after`` load weights of the state ``before`` too, and keep what it has of its own with them."""
    places = {id(value): name for name, value in after.state_dict(keep_vars=True).items()}
    moved = {name: places.get(id(value), "") for name, value in before.items()}
    after.register_load_state_dict_pre_hook(partial(_rename, moved))


def _rename(moved: Mapping[str, str], module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """Give entries of ``state`` their new names below ``prefix``, unless it is from after the swap."""
    names = {prefix + old: prefix + new for old, new in moved.items()}
    own = module.state_dict(prefix=prefix)
    added = {key: own[key] for key in own.keys() - names.values()}
    if any(key in state for key in (*added, *(new for old, new in names.items() if new != old))):
        return
    for old, new in names.items():
        if old in state:
            value = state.pop(old)
            if new in own:
                state[new] = value
    state |= added
