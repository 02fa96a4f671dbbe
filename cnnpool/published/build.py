"""From names and options to a network of another package that is ready to be trained."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from cnnpool import registry
from cnnpool.published.network import Published
from cnnpool.published.operators import Operators
from cnnpool.published.sources import Installed, NetworkSource, Timm, Torchvision
from cnnpool.published.weights import Loaded, load_into
from cnnpool.registry import KEEP
from cnnpool.surgery.replace import Change, swap
from cnnpool.surgery.stages import stages_of

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
        options: of the package's entry, ``arch`` and ``weights``.

    Raises:
        ValueError: for an unknown name or option; if weights cannot be had or do not fit; if the network does
            not run on such images, or an operator that is asked for can replace nothing.
    """
    if in_channels not in (1, 3):
        raise ValueError(f"published networks take 1 or 3 channels, not {in_channels}")
    source: NetworkSource = registry.construct(PUBLISHED, "networks", name, **options)
    network = source.network(num_classes)
    weights = source.weights()
    loaded = load_into(network, weights, num_classes) if weights else Loaded("random")
    example = torch.zeros(2, 3, *size)
    try:
        asked, changes = _swap(network, example, operators)
    except ValueError as error:
        raise ValueError(f"{source.name}: {error}") from None
    if readout["name"] != KEEP:
        chosen = {key: value for key, value in readout.items() if key != "name"}
        swap(network, readout["name"], example=example, where="head", **chosen)
    stages = stages_of(network, example, changes)
    found = {stage: asked.get(stage, {"name": KEEP}) for stage in stages}
    _tell(source.name, loaded, found)
    return Published(network, stages, found, loaded)


def _swap(
    network: nn.Module, example: torch.Tensor, operators: Operators
) -> tuple[dict[str, Mapping[str, Any]], list[Change]]:
    """Replace what is asked for: the operator of every stage that was replaced, and the changes."""
    names = _names(network, example)
    if unknown := sorted(operators.own.keys() - names.keys()):
        remedy = registry.did_you_mean(unknown[0], names)
        raise ValueError(f"stage.{unknown[0]}: the network has no such stage; {remedy}")
    done: dict[str, Mapping[str, Any]] = {}
    changes: list[Change] = []
    for stage, operator in operators.own.items():
        if operator["name"] != KEEP:
            changes += _replace(network, example, operator, [names[stage]])
            done[stage] = operator
    rest = [stage for stage in names if stage not in operators.own]
    if rest and operators.common["name"] != KEEP:
        replaced, more = _replace_most(network, example, operators.common, {s: names[s] for s in rest})
        done |= dict.fromkeys(replaced, operators.common)
        changes += more
    return done, changes


def _replace_most(
    network: nn.Module, example: torch.Tensor, operator: Mapping[str, Any], names: Mapping[str, str]
) -> tuple[list[str], list[Change]]:
    """Replace every stage that ``operator`` can replace: the stages, and the changes.

    Raises:
        ValueError: if there is none.
    """
    try:
        return list(names), _replace(network, example, operator, list(names.values()))
    except ValueError as error:
        first = error
    replaced: list[str] = []
    changes: list[Change] = []
    reasons = []
    for stage, dotted in names.items():
        try:
            changes += _replace(network, example, operator, [dotted])
            replaced.append(stage)
        except ValueError as error:
            reasons.append(f"{stage} stays as it is: {error}")
    if not replaced:
        raise first
    for reason in reasons:
        log.warning(reason)
    return replaced, changes


def _replace(
    network: nn.Module, example: torch.Tensor, operator: Mapping[str, Any], dotted: Sequence[str]
) -> list[Change]:
    options = {key: value for key, value in operator.items() if key != "name"}
    return swap(
        network, operator["name"], example=example, where=lambda name, module: name in dotted, **options
    )


def _names(network: nn.Module, example: torch.Tensor) -> dict[str, str]:
    """The dotted name of every stage."""
    modules = {module: name for name, module in network.named_modules()}
    return {stage: modules[module] for stage, module in stages_of(network, example).items()}


def _tell(name: str, loaded: Loaded, operators: Mapping[str, Mapping[str, Any]]) -> None:
    log.info("%s: stages %s", name, ", ".join(f"{stage}={each['name']}" for stage, each in operators.items()))
    new = f"; new, since the classes are others: {', '.join(loaded.new)}" if loaded.new else ""
    log.info("%s: weights %s%s", name, loaded.source, new)
