"""From names and options to a network of another package that is ready to be trained."""

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from cnnpool import registry
from cnnpool.published.network import Operators, Published
from cnnpool.published.sources import Installed, NetworkSource, Timm, Torchvision
from cnnpool.published.weights import Loaded, load_into
from cnnpool.registry import KEEP
from cnnpool.surgery.calls import as_modules
from cnnpool.surgery.fitting import Order
from cnnpool.surgery.replace import Change, swap
from cnnpool.surgery.stages import stages_of
from cnnpool.surgery.trace import dry_run, limited

log = logging.getLogger(__name__)

PUBLISHED: dict[str, Callable[..., NetworkSource]] = {
    "installed": Installed,
    "timm": Timm,
    "torchvision": Torchvision,
}


def build(
    name: str,
    in_channels: int,
    size: tuple[int, int],
    num_classes: int,
    *,
    operators: Operators,
    readout: Mapping[str, Any],
    **options: Any,
) -> Published:
    """A network of the package ``name`` with the operators and the readout that are asked for.

    Its stages are all pooling and strided convolutions, found by a dry run, by their dotted names with
    underscores for dots. A stage whose downsampling the common operator cannot replace stays as it is, and a
    warning says why.

    Args:
        name: a key of ``PUBLISHED``.
        in_channels: 1 or 3.
        size: (H, W) of the images.
        num_classes: number of logits.
        operators: for the stages; the options of each are those that shall differ from what was there.
        readout: ``name`` and options of the readout in place of the global pooling; ``keep`` for its own.
        options: of the package's entry, such as ``arch`` and ``weights``.

    Raises:
        ValueError: for an unknown name or option; if weights cannot be had or do not fit; if the network does
            not run on such images, or an operator that is asked for can replace nothing.
    """
    if in_channels not in (1, 3):
        raise ValueError(f"published networks take 1 or 3 channels, not {in_channels}")
    source: NetworkSource = registry.construct(PUBLISHED, "networks", name, **options)
    # Pooling that the network's code calls as a function can be a stage too.
    network = as_modules(source.network(num_classes))
    weights = source.read_weights()
    loaded = load_into(network, weights, num_classes) if weights else Loaded("random")
    example = torch.zeros(2, 3, *size)
    try:
        asked, changes = _swap(network, example, operators, source)
    except ValueError as error:
        raise ValueError(f"{source.arch}: {error}") from None
    if readout["name"] != KEEP:
        chosen = {key: value for key, value in readout.items() if key != "name"}
        swap(network, readout["name"], example=example, where="head", **chosen)
    stages = stages_of(network, example, changes)
    found = {stage: asked.get(stage, {"name": KEEP}) for stage in stages}
    _tell(source.arch, loaded, found)
    return Published(network, stages, found, loaded)


def _swap(
    network: nn.Module, example: torch.Tensor, operators: Operators, source: NetworkSource
) -> tuple[dict[str, Mapping[str, Any]], list[Change]]:
    """Replace what is asked for: the operator of every stage that was replaced, and the changes."""
    names = _names(network, example)
    if unknown := sorted(operators.own.keys() - names.keys()):
        remedy = registry.did_you_mean(unknown[0], names)
        raise ValueError(f"stage.{unknown[0]}: the network has no such stage; {remedy}")
    replace = partial(_replace, network, example, source.order)
    done: dict[str, Mapping[str, Any]] = {}
    changes: list[Change] = []
    if operators.common["name"] != KEEP:
        seen = {target.name: target for target in dry_run(network, example)}
        places = [seen[dotted] for dotted in names.values()]
        most = {target.name for target in limited(places, source.min_channels, source.skip_stem)}
        rest = {s: dotted for s, dotted in names.items() if s not in operators.own and dotted in most}
        replaced, changes = _replace_most(replace, operators.common, rest)
        done = dict.fromkeys(replaced, operators.common)
    for stage, operator in operators.own.items():
        if operator["name"] != KEEP:
            changes += replace(operator, [names[stage]])
            done[stage] = operator
    return done, changes


def _replace_most(
    replace: Callable[[Mapping[str, Any], Collection[str]], list[Change]],
    operator: Mapping[str, Any],
    names: Mapping[str, str],
) -> tuple[list[str], list[Change]]:
    """Replace every stage that ``operator`` can replace: the stages, and the changes.

    Raises:
        ValueError: if it can replace none of several.
    """
    if not names:
        return [], []
    try:
        return list(names), replace(operator, names.values())
    except ValueError as error:
        first = error
    replaced: list[str] = []
    changes: list[Change] = []
    reasons = []
    for stage, dotted in names.items():
        try:
            changes += replace(operator, [dotted])
            replaced.append(stage)
        except ValueError as error:
            reasons.append(f"{stage} stays as it is: {error}")
    if not replaced:
        raise first
    for reason in reasons:
        log.warning(reason)
    return replaced, changes


def _replace(
    network: nn.Module,
    example: torch.Tensor,
    order: Order,
    operator: Mapping[str, Any],
    dotted: Collection[str],
) -> list[Change]:
    options = {key: value for key, value in operator.items() if key != "name"}
    return swap(
        network,
        operator["name"],
        example=example,
        where=lambda name, module: name in dotted,
        order=order,
        **options,
    )


def _names(network: nn.Module, example: torch.Tensor) -> dict[str, str]:
    """The dotted name of every stage."""
    modules = {module: name for name, module in network.named_modules()}
    return {stage: modules[module] for stage, module in stages_of(network, example).items()}


def _tell(name: str, loaded: Loaded, operators: Mapping[str, Mapping[str, Any]]) -> None:
    log.info("%s: stages %s", name, ", ".join(f"{stage}={each['name']}" for stage, each in operators.items()))
    new = f"; new, since the classes are others: {', '.join(loaded.new)}" if loaded.new else ""
    log.info("%s: weights %s%s", name, loaded.source, new)
