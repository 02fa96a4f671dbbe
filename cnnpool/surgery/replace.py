"""Replace a model's operators or head."""

import copy
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import isfunction, signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from cnnpool import registry
from cnnpool.as_found import examined
from cnnpool.pool import OPERATORS, Pool2d
from cnnpool.pool.axes import ROWS
from cnnpool.pool.base import check_choice
from cnnpool.readout import READOUTS, Readout
from cnnpool.surgery.behind import After, Spot, spots
from cnnpool.surgery.carry_out import Change, Edit, Plan, carry_out
from cnnpool.surgery.fitting import (
    Entry,
    InPlaceOf,
    Order,
    at_stride_1,
    fitting,
    new_downsampling,
    new_head,
)
from cnnpool.surgery.trace import (
    AS_MODULES,
    CONVOLUTION,
    FunctionalPooling,
    Target,
    Where,
    dry_run,
    limited,
    line_of,
    refuse_compiled,
    refuse_opaque,
    select,
    unrecognised,
)
from cnnpool.system.progress import Progress

log = logging.getLogger(__name__)
FOLDING = ("fuse", "reparameterize", "switch_to_deploy")
"""Methods of modules that make a convolution anew from one and what follows it."""
CHEAPER = 'order="before", skip_stem=True or min_channels=16 costs less'


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
      ``subsample`` this is the same function as before), as ``Sequential(conv, operator)``; one that pads
      by its stride, as timm's Conv2dSame, keeps its sampling positions; with ``order="before"`` the
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
    longer fit, as a size is rounded otherwise and an adaptive pooling has become a stride. Re-parameterise or
    fuse first, as that makes convolutions anew, without operators. Create the optimizer after swapping: names
    of parameters change, operators have their own. ``load_state_dict`` takes weights from before the swap and
    from after it.

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
    check_choice("order", order, Order)
    check_choice("after", after, After)
    if (order, after) == ("before", "activation"):
        raise ValueError("after='activation' makes convolutions dense; order='before' leaves their stride")
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
    options = checked(entry, name, options, example)
    refuse_compiled(model)
    functional = FunctionalPooling(model)
    seen = dry_run(model, example, functional)
    targets = select(seen, where, reads_out, functional)
    if not reads_out:
        targets = limited(targets, min_channels, skip_stem)
    places, bare = spots(model, example, targets, seen) if after == "activation" else ({}, [])
    make = new_head if reads_out else partial(new_downsampling, order=order)
    edits = [edit(name, target, places.get(target.module), make, entry, options) for target in targets]
    warnings = [folded(name, model, targets)]
    if not reads_out and where in (None, "pool"):
        warnings.append(left_alone(name, seen, functional))
    # Large windows on the dense map of a patch embedding take minutes.
    with Progress(f"trying {name} in the model"):
        warnings.append(carry_out(name, model, edits, example, "" if reads_out else CHEAPER, recalibrate))
    if bare:
        warnings.append(f"{name} follows {', '.join(bare)} at once: no one module has the activation's map")
    log.info("%s replaces %s", name, ", ".join(map(str, edits)))
    for text in filter(None, warnings):
        log.warning(text)
    return [one.change for one in edits]


def checked(entry: Entry, name: str, options: dict[str, Any], example: Tensor) -> dict[str, Any]:
    """The options of an operator, each by its annotation; a ValueError for one out of range."""
    # The size per axis of a sequence or volume is checked when the operator is made.
    sizes = ROWS if example.ndim != 4 else ()
    whole = {key: value for key, value in options.items() if key not in sizes or isinstance(value, int)}
    return options | registry.check(entry, name, whole)


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


def found(chosen: str | Entry, where: Where = None) -> tuple[bool, Entry]:
    """Whether ``chosen`` is a readout, and its class; a ValueError for an unknown name or another class."""
    entry, reads_out = chosen, where == "head"
    if isinstance(chosen, str):
        pools = registry.names(OPERATORS, "operators")
        reads_out |= chosen not in pools and chosen in registry.names(READOUTS, "readouts")
        table: Mapping[str, Entry] = READOUTS if reads_out else OPERATORS
        if where == "head" and chosen in pools and chosen not in registry.names(READOUTS, "readouts"):
            raise ValueError(f"no readout named {chosen!r}: it is an operator, for places but the head")
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
    # Weights of the original keep their type.
    after = after.to(x.device).train(target.module.training)
    own = {id(t) for t in (*target.module.parameters(), *target.module.buffers())}
    for part in after.modules():
        if x.is_floating_point() and not any(id(t) in own for t in (*part.parameters(), *part.buffers())):
            part.to(x.dtype)
    channels = sorted({x.shape[1] for x in target.inputs})
    if len(channels) > 1:
        try:
            with torch.no_grad(), examined(after):
                for x in target.inputs:
                    after(x)
        except Exception as error:
            raise ValueError(
                f"it is called with maps of {', '.join(map(str, channels))} channels, and "
                "the replacement takes only one number of channels"
            ) from error
    return ByKeyword(after) if target.keyword else after


def folded(name: str, model: nn.Module, targets: Sequence[Target]) -> str:
    """A sentence on modules that would lose the operator at a convolution of theirs; empty without any."""
    # timm and others give the convolution that they have made such a name.
    convolutions = [t.name for t in targets if isinstance(t.module, CONVOLUTION) and "reparam" not in t.name]
    found = [
        f"{method}() of {dotted or 'the model'}"
        for dotted, module in model.named_modules()
        for method in FOLDING
        if _takes_nothing(getattr(type(module), method, None))
        if any(conv.startswith(dotted and f"{dotted}.") for conv in convolutions)
    ]
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return f"{name} would be lost in {found[0]}{more}: re-parameterise or fuse before a swap" if found else ""


def _takes_nothing(method: object) -> bool:
    """True for a method that needs no argument."""
    if not isfunction(method):
        return False
    rest = [*signature(method).parameters.values()][1:]
    return all(
        one.default is not one.empty or one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in rest
    )


def left_alone(name: str, seen: Sequence[Target], functional: FunctionalPooling) -> str:
    """A sentence on downsampling that was not replaced; empty if there is none."""
    parts = []
    if functional.calls:
        parts.append(f"{functional} ({AS_MODULES})")
    if names := unrecognised(seen, functional):
        parts.append(f"{', '.join(names)}, which change the size of maps in their own way")
    return f"{name} replaces modules alone; left as they were: {'; '.join(parts)}" if parts else ""
