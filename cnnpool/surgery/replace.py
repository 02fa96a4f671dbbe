"""Replacement of a model's operators or head."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

from torch import Tensor, nn

from cnnpool import registry
from cnnpool.pool import OPERATORS
from cnnpool.readout import READOUTS
from cnnpool.surgery.cost import cost, costlier
from cnnpool.surgery.fitting import Order, new_downsampling, new_head
from cnnpool.surgery.left import FunctionalPooling
from cnnpool.surgery.trace import (
    Target,
    Where,
    dry_run,
    limited,
    pools,
    refuse_compiled,
    select,
    unrecognised,
)

log = logging.getLogger(__name__)

CHEAPER = 'order="before", skip_stem=True or min_channels=16 costs less'
"""Remedies for an operator that makes a model costlier."""


@dataclass(frozen=True)
class Change:
    """One replacement: the module's dotted name, the old and the new module."""

    name: str
    before: nn.Module
    after: nn.Module


def swap(
    model: nn.Module,
    name: str,
    *,
    example: Tensor,
    where: Where = None,
    order: Order = "after",
    min_channels: int = 0,
    skip_stem: bool = False,
    **options: Any,
) -> list[Change]:
    """Replace the downsampling of ``model`` by the operator ``name``, or its head by the readout ``name``.

    Works on any module whose downsampling is modules, in place; pooling by torch.nn.functional stays, and a
    warning about it is logged:

    * a max, average, Lp, fractional or blur pooling, an adaptive one whose bins are equal, or an operator of
      cnnpool, becomes the operator;
    * a convolution of stride s keeps its weights at stride 1, followed by the operator of stride s (with
      ``subsample`` that is the same function as before), as ``Sequential(conv, operator)``; timm's
      Conv2dSame, which pads by its stride, keeps the places of its samples; with ``order="before"`` the
      operator stands at stride 1 before the convolution as it is, which takes a quarter of the arithmetic;
    * Swin's patch merging is a convolution too, of 2 x 2 cells and stride 2;
    * for a readout: the last global pooling that the example passes, or the ones that ``where`` names.

    The stride is the original's, and so are window, padding, dilation and ceil_mode for an operator that by
    default pools cells side by side: ``max`` in place of MaxPool2d changes no bit. ``options`` come first.
    If the size of the output then differs, ceil_mode and padding are changed until it does not; if nothing
    helps, zeros are added (or pixels dropped) at the bottom and right of the operator's input, and at last
    the operator's own window stands in for the original's. New parameters are initialised as usual. Load a
    checkpoint before swapping, and make the optimizer after it: the names of parameters in replaced
    convolutions change, and operators may bring their own.

    Args:
        model: changed in place, or left untouched if anything is refused.
        name: a stem of ``conf/pool`` or ``conf/readout``; one in both is an operator, unless where="head".
        example: input of the dry run that finds channels and sizes, e.g. zeros (1, 3, 224, 224). Modules that
            it does not reach are left alone.
        where: pool, conv or head; or a regular expression found in the dotted names; or a function of
            (name, module); None for all pooling and strided convolutions, or the head.
        order: of operator and convolution, where a convolution has the stride: after or before.
        min_channels: leave alone what sees maps of fewer channels; 16 leaves most stems.
        skip_stem: leave alone the first module that downsamples.
        options: of the operator or readout.

    Returns:
        The replacements in the order of the forward pass.

    Raises:
        ValueError: for an unknown name, option or order, a value out of range, if nothing can be replaced (a
            model that is itself a pooling included), if the model is compiled, or if a module cannot be
            replaced: it returns indices too, cannot keep the size of its output, or is not called through
            its attribute; the message names the module.

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
    if order not in get_args(Order):
        raise ValueError(f"order must be one of {', '.join(get_args(Order))}, got {order!r}")
    reads_out = where == "head" or (name in READOUTS and name not in OPERATORS)
    room, entries = ("readouts", READOUTS) if reads_out else ("operators", OPERATORS)
    entry = registry.lookup(entries, room, name)
    options = registry.check(entry, name, options)
    refuse_compiled(model)
    functional = FunctionalPooling(model, pools)
    seen = dry_run(model, example, functional)
    targets = select(seen, where, reads_out, functional)
    if not reads_out:
        targets = limited(targets, min_channels, skip_stem)
    left = "" if reads_out or where not in (None, "pool") else left_alone(name, seen, functional)
    make = new_head if reads_out else partial(new_downsampling, order=order)
    before = cost(model, example)
    plan: dict[nn.Module, nn.Module] = {}
    for target in targets:
        try:
            after = make(target, entry, options)
        except ValueError as error:
            raise ValueError(f"{name} cannot replace {target.name}: {error}") from error
        plan[target.module] = after.to(target.inputs[0]).train(target.module.training)
    install(model, plan)
    try:
        verify(targets, plan, dry_run(model, example))
    except Exception:
        install(model, {after: before for before, after in plan.items()})
        raise
    changes = [Change(target.name, target.module, plan[target.module]) for target in targets]
    log.info("%s replaces %s", name, ", ".join(change.name for change in changes))
    said = costlier(name, before, cost(model, example), "" if reads_out else CHEAPER)
    for text in filter(None, (said, left)):
        log.warning(text)
    return changes


def left_alone(name: str, seen: Sequence[Target], functional: FunctionalPooling) -> str:
    """A sentence on downsampling that was not replaced; empty where there is none."""
    parts = []
    if functional.calls:
        parts.append(f"{functional} (cnnpool.as_modules makes modules of them)")
    if names := unrecognised(seen, functional):
        parts.append(f"{', '.join(names)}, which make maps smaller in a way of their own")
    return f"{name} replaces modules alone; left as they were: {'; '.join(parts)}" if parts else ""


def install(model: nn.Module, plan: Mapping[nn.Module, nn.Module]) -> None:
    """Put ``plan[module]`` wherever ``module`` stands in the model, its tables of stages included."""
    for dotted, module in list(model.named_modules(remove_duplicate=False)):
        if module in plan:
            parent, _, leaf = dotted.rpartition(".")
            setattr(model.get_submodule(parent), leaf, plan[module])
        stages = getattr(module, "stages", None)
        if isinstance(stages, dict):
            stages.update({stage: plan[pool] for stage, pool in stages.items() if pool in plan})


def verify(targets: Sequence[Target], plan: Mapping[nn.Module, nn.Module], seen: Sequence[Target]) -> None:
    """Compare what the replacements returned with what the originals did.

    Raises:
        ValueError: naming the module whose output changed its shape.
    """
    now = {target.module: [tuple(y.shape[1:]) for y in target.outputs] for target in seen}
    for target in targets:
        before = [tuple(y.shape[1:]) for y in target.outputs]
        after = now.get(plan[target.module])
        if after is None:
            raise ValueError(
                f"{target.name} is not called through this attribute (the model keeps it in a list, or under "
                "another name that is no submodule), so that replacing it changes nothing"
            )
        if after != before:
            raise ValueError(f"{target.name} returned maps {before}, its replacement {after}")
