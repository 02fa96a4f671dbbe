"""Replace a model's operators or head."""

import copy
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from cnnpool import registry
from cnnpool.pool import OPERATORS, Pool2d
from cnnpool.pool.axes import ROWS
from cnnpool.pool.base import check_choice
from cnnpool.readout import READOUTS, Readout
from cnnpool.surgery.behind import After, Spot, spots
from cnnpool.surgery.costs import Cost, cost, costlier
from cnnpool.surgery.fitting import Entry, InPlaceOf, Order, at_stride_1, fitting, new_downsampling, new_head
from cnnpool.surgery.statistics import in_batches
from cnnpool.surgery.statistics import recalibrate as measure_statistics
from cnnpool.surgery.trace import (
    FunctionalPooling,
    Target,
    Where,
    dry_run,
    evaluating,
    limited,
    line_of,
    refuse_compiled,
    refuse_opaque,
    select,
    unrecognised,
)

log = logging.getLogger(__name__)
CHEAPER = 'order="before", skip_stem=True or min_channels=16 costs less'
Plan = dict[nn.Module, nn.Module]


@dataclass(frozen=True)
class Change:
    """One replacement: the module's dotted name, the old and the new module.

    With ``after="activation"`` the new module is the operator, and a dense convolution has the name.
    """

    name: str
    before: nn.Module
    after: nn.Module


def swap(
    model: nn.Module,
    name: str | Entry,
    *,
    example: Tensor,
    where: Where = None,
    order: Order = "after",
    after: After = "convolution",
    min_channels: int = 0,
    skip_stem: bool = False,
    recalibrate: Tensor | None = None,
    **options: Any,
) -> list[Change]:
    """Replace the downsampling of ``model`` by the operator ``name``, or its head by the readout ``name``.

    Works in place on any module whose downsampling uses modules; pooling by torch.nn.functional stays, and a
    warning about it is logged:

    * a max, average, Lp, fractional or blur pooling, an adaptive one with equal bins, or an operator of
      cnnpool, becomes the operator;
    * a convolution of stride s keeps its weights at stride 1, followed by the operator of stride s (with
      ``subsample`` this is the same function as before), as ``Sequential(conv, operator)``; timm's
      Conv2dSame, which pads by its stride, keeps its sampling positions; with ``order="before"`` the
      operator comes at stride 1 before the unchanged convolution, which takes a quarter of the arithmetic;
    * with ``after="activation"``, a convolution whose map goes to a normalisation, or none, and to an
      activation, and nowhere else, is made dense, and the operator follows the activation, as Zhang (2019)
      blurs: behind the module that returns its map, or before the one that takes it where blocks use one
      ReLU several times; other convolutions as ever, with a warning if they have an activation;
    * Swin's patch merging counts as a convolution of 2 x 2 cells and stride 2;
    * pooling and strided convolutions of sequences likewise, by ``Pool1d`` of the operator, and of volumes by
      ``max``, ``avg``, ``blur`` or ``subsample`` in two passes, ``Pool3d``;
    * for a readout: the last global pooling that the example passes, or those that ``where`` selects.

    The stride is the original's, and so are window, padding, dilation and ceil_mode for an operator that by
    default pools adjacent cells: ``max`` in place of MaxPool2d is bit-identical. ``options`` take precedence.
    If the output's size then differs, ceil_mode and padding are changed, else zeros are added (or pixels
    dropped) at the bottom and right, else the operator's own window replaces the original's. That holds for
    the example's size: at others maps may be larger or smaller than before, so that branches that meet no
    longer fit, as a size is rounded otherwise and an adaptive pooling has become a stride. Create the
    optimizer after swapping: names of parameters change, operators have their own. ``load_state_dict`` takes
    weights from before the swap and from after it.

    Args:
        model: changed in place, or left unchanged if anything is refused.
        name: of an operator or a readout, also of an installed package; one of both is an operator, unless
            where="head". Or the class itself.
        example: input of the dry run that finds channels and sizes, e.g. zeros (1, 3, 224, 224); (N, C, L)
            for networks of sequences, (N, C, D, H, W) of volumes. Modules that it does not reach stay.
        where: pool, conv or head; or a regular expression found in the dotted names; or a function of
            (name, module); None for all pooling and strided convolutions, or the head.
        order: of operator and convolution, if a convolution has the stride: after or before.
        after: what the operator then follows, convolution or activation.
        min_channels: skip modules that see maps of fewer channels; 16 skips most stems.
        skip_stem: skip the first module that downsamples.
        recalibrate: normalised training images (N, C, H, W), on which the statistics of batch normalisation
            are then measured anew, since the maps are others; in batches of at most 64, as equal as can be.
        options: of the operator or readout.

    Returns:
        The replacements in the order of the forward pass.

    Raises:
        ValueError: for an unknown name, option or order, a value out of range, a compiled model, if nothing
            can be replaced, or if a module cannot be: it returns indices too, cannot keep the size of its
            output, or is not called through its attribute; the message names the module.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from cnnpool import swap
        >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, stride=2))
        >>> changes = swap(model, "max_blur", example=torch.zeros(1, 3, 32, 32))
        >>> [change.name for change in changes]
        ['1', '2']
        >>> type(model[1]).__name__
        'MaxBlurPool2d'
        >>> model(torch.rand(1, 3, 32, 32)).shape
        torch.Size([1, 8, 7, 7])
    """
    return exchange(
        model, name, options, example=example, where=where, order=order, after=after,
        min_channels=min_channels, skip_stem=skip_stem, recalibrate=recalibrate,
    )  # fmt: skip


def _check_place(order: Order, after: After) -> None:
    check_choice("order", order, Order)
    check_choice("after", after, After)
    if (order, after) == ("before", "activation"):
        raise ValueError(
            "after='activation' makes convolutions dense, and order='before' leaves their stride"
        )


def exchange(
    model: nn.Module,
    chosen: str | Entry,
    options: dict[str, Any],
    *,
    example: Tensor,
    where: Where = None,
    order: Order = "after",
    after: After = "convolution",
    min_channels: int = 0,
    skip_stem: bool = False,
    recalibrate: Tensor | None = None,
) -> list[Change]:
    """:func:`swap` for ``options`` whose names may be those of its own parameters, such as ``order``."""
    _check_place(order, after)
    reads_out, entry = found(chosen, where)
    name = chosen if isinstance(chosen, str) else entry.__name__
    refuse_opaque(model, example)
    if any(map(is_lazy, (*model.parameters(), *model.buffers()))):
        # A dry run gives lazy modules their sizes, also one that ends in a refusal.
        trial = copy.deepcopy(model)
        dry_run(trial, example)
        exchange(
            trial, chosen, options, example=example, where=where, order=order, after=after,
            min_channels=min_channels, skip_stem=skip_stem, recalibrate=recalibrate,
        )  # fmt: skip
    # The size per axis of a sequence or volume is checked when the operator is made.
    sizes = ROWS if example.ndim != 4 else ()
    whole = {key: value for key, value in options.items() if key not in sizes or isinstance(value, int)}
    options = options | registry.check(entry, name, whole)
    refuse_compiled(model)
    functional = FunctionalPooling(model)
    seen = dry_run(model, example, functional)
    targets = select(seen, where, reads_out, functional)
    if not reads_out:
        targets = limited(targets, min_channels, skip_stem)
    places, bare = spots(model, example, targets, seen) if after == "activation" else ({}, [])
    make = new_head if reads_out else partial(new_downsampling, order=order)
    edits = [edit(name, target, places.get(target.module), make, entry, options) for target in targets]
    warnings = []
    if not reads_out and where in (None, "pool"):
        warnings.append(left_alone(name, seen, functional))
    warnings.append(carry_out(name, model, edits, example, "" if reads_out else CHEAPER, recalibrate))
    if bare:
        warnings.append(f"{name} follows {', '.join(bare)} at once: no one module has the activation's map")
    log.info("%s replaces %s", name, ", ".join(map(str, edits)))
    for text in filter(None, warnings):
        log.warning(text)
    return [one.change for one in edits]


@dataclass(frozen=True)
class Edit:
    """A change, the modules that it exchanges in the model, and the one that then has the original's map."""

    change: Change
    plan: Plan
    carrier: Target
    spot: Spot | None = None

    def __str__(self) -> str:
        return f"{self.change.name} ({self.spot})" if self.spot else self.change.name


def edit(
    name: str,
    target: Target,
    spot: Spot | None,
    make: Callable[..., nn.Module],
    entry: Entry,
    options: Mapping[str, Any],
) -> Edit:
    """The replacement of ``target``, or the operator at a ``spot`` behind the convolution made dense."""
    if spot is None:
        after = made(name, target, partial(make, target, entry, options))
        return Edit(Change(target.name, target.module, after), {target.module: after}, target)
    dense, maps = at_stride_1(target)
    after = made(name, target, partial(fitting, target, maps, entry, options))
    # A network that pads by the stride of the convolution reads it there.
    shown = InPlaceOf(dense).show(target.module, 0)
    plan: Plan = {target.module: shown, spot.target.module: spot.holding(after)}
    return Edit(Change(target.name, target.module, after), plan, spot.target, spot)


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
    after = installed(model, plan, example, images)
    for module, new in plan.items():
        move_hooks(module, new)
        take_former_names(former[module], new)
    return costlier(name, before, after, remedy)


def found(chosen: str | Entry, where: Where = None) -> tuple[bool, Entry]:
    """Whether ``chosen`` is a readout, and its class; a ValueError for an unknown name or another class."""
    entry, reads_out = chosen, where == "head"
    if isinstance(chosen, str):
        pools = registry.names(OPERATORS, "operators")
        reads_out |= chosen not in pools and chosen in registry.names(READOUTS, "readouts")
        table: Mapping[str, Entry] = READOUTS if reads_out else OPERATORS
        entry = registry.lookup(table, "readouts" if reads_out else "operators", chosen)
    elif isinstance(chosen, type):
        reads_out |= issubclass(chosen, Readout)
    if not callable(entry) or (isinstance(entry, type) and not issubclass(entry, Pool2d | Readout)):
        raise ValueError(f"{chosen!r} is not an operator: derive it from cnnpool.pool.Pool2d, or Readout")
    return reads_out, entry


def made(name: str, target: Target, make: Callable[[], nn.Module]) -> nn.Module:
    """The replacement of ``target``; ValueError names it if there is none."""
    try:
        return replacement(target, make())
    except (ValueError, RuntimeError) as error:
        raise ValueError(f"{name} cannot replace {target.name}: {line_of(error)}") from error


class ByKeyword(nn.Module):
    """``module`` for callers that pass its input by any keyword."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, *images: Tensor, **named: Tensor) -> Tensor:
        y: Tensor = self.module(*images, *named.values())
        return y


def replacement(target: Target, after: nn.Module) -> nn.Module:
    """``after`` with the target's device, dtype, mode and keyword; ValueError if its channels do not fit."""
    x = target.inputs[0]
    after = after.to(x.device, x.dtype if x.is_floating_point() else None).train(target.module.training)
    channels = sorted({x.shape[1] for x in target.inputs})
    if len(channels) > 1:
        try:
            with torch.no_grad(), evaluating(after):
                for x in target.inputs:
                    after(x)
        except Exception as error:
            raise ValueError(
                f"it is called with maps of {', '.join(map(str, channels))} channels, and "
                "the replacement takes only one number of channels"
            ) from error
    return ByKeyword(after) if target.keyword else after


HOOKS = (
    *("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs"),
    *("_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called"),
    *("_backward_pre_hooks", "_backward_hooks"),
)
"""The tables of a module's hooks; their handles refer to the tables, so these are moved, not copied."""


def move_hooks(before: nn.Module, after: nn.Module) -> None:
    """Move the hooks of a module to its replacement, except those by which torch computes its parameters."""
    for name in HOOKS:
        table = getattr(before, name)
        own = {key: hook for key, hook in table.items() if type(hook).__module__.startswith("torch.nn.utils")}
        for key in own:
            del table[key]
        for part in after.modules():
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


def left_alone(name: str, seen: Sequence[Target], functional: FunctionalPooling) -> str:
    """A sentence on downsampling that was not replaced; empty if there is none."""
    parts = []
    if functional.calls:
        parts.append(f"{functional} (cnnpool.as_modules makes modules of them)")
    if names := unrecognised(seen, functional):
        parts.append(f"{', '.join(names)}, which change the size of maps in their own way")
    return f"{name} replaces modules alone; left as they were: {'; '.join(parts)}" if parts else ""


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
    install(model, plan)
    try:
        seen, fault = dry_run(model, example), gradient_fault(model, example)
    finally:
        install(model, {after: before for before, after in plan.items()})
    if fault and not gradient_fault(model, example):
        raise ValueError(f"the network then has no gradient: {fault}")
    return seen


def gradient_fault(model: nn.Module, example: Tensor) -> str:
    """The error of a backward pass in evaluation mode, which adds to no gradient; empty if there is none."""
    devices = [example.device] if example.is_cuda else []
    with evaluating(model), torch.random.fork_rng(devices), torch.enable_grad():
        # A copy: the first layer may work in place, which a leaf does not allow.
        x = example.detach().clone().requires_grad_(example.is_floating_point()).clone()
        try:
            output = model(x)
            parts = output.values() if isinstance(output, dict) else output
            several = isinstance(output, dict | tuple | list)
            found = [y for y in (parts if several else [output]) if isinstance(y, Tensor) and y.requires_grad]
            inputs = [p for p in model.parameters() if p.requires_grad] + [x] * x.requires_grad
            if found:
                torch.autograd.grad([y.sum() for y in found], inputs, allow_unused=True)
        except RuntimeError as error:
            return line_of(error)
    return ""


def install(model: nn.Module, plan: Plan) -> None:
    """Replace ``module`` by ``plan[module]`` everywhere in the model, including its tables of stages."""
    # Children first: a block that goes into another module takes its new children along.
    for dotted, module in reversed(list(model.named_modules(remove_duplicate=False))):
        if module in plan:
            model.set_submodule(dotted, plan[module])
        stages = getattr(module, "stages", None)
        if isinstance(stages, dict):
            stages.update({stage: plan[pool] for stage, pool in stages.items() if pool in plan})


def installed(model: nn.Module, plan: Plan, example: Tensor, images: Tensor | None) -> Cost:
    """The cost of ``model`` after ``plan``, which is undone if the model then fails, also on ``images``."""
    install(model, plan)
    try:
        if images is not None:
            measure_statistics(model, in_batches(images))
        return cost(model, example)
    except BaseException:
        install(model, {after: before for before, after in plan.items()})
        raise


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
