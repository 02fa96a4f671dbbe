"""Which modules of a model downsample, and what they see: found by a dry run."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from cnnpool.pool import Pool2d
from cnnpool.readout import Readout

Where = str | Callable[[str, nn.Module], bool] | None


@dataclass
class Target:
    """A module of the model, and the map it received and returned at each call of the dry run."""

    name: str
    module: nn.Module
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)

    @property
    def kind(self) -> str | None:
        """pool, conv or head; None if the module does not shrink its map."""
        module, shrinks = self.module, self.outputs[0].shape[2:] != self.inputs[0].shape[2:]
        if isinstance(module, nn.Conv2d):
            return "conv" if max(module.stride) > 1 else None
        # Of other packages, known by their names: timm's SelectAdaptivePool2d, the BlurPool of several.
        named = type(module).__name__
        pools_all = isinstance(module, nn.AdaptiveAvgPool2d | nn.AdaptiveMaxPool2d | Readout)
        if pools_all or named.startswith("SelectAdaptivePool"):
            return "head" if self.outputs[0].shape[2:].numel() == 1 else None
        pools = isinstance(module, nn.MaxPool2d | nn.AvgPool2d | Pool2d) or named.startswith("BlurPool")
        return "pool" if pools and shrinks else None

    @property
    def stride(self) -> tuple[int, int]:
        stride = self.module.stride
        return (stride, stride) if isinstance(stride, int) else tuple(stride)


def dry_run(model: nn.Module, example: Tensor) -> list[Target]:
    """Modules that map a feature map to a tensor, in the order of their last call, with what they saw.

    Raises:
        ValueError: if the model does not run on the example.
    """
    targets: dict[nn.Module, Target] = {}
    names = {module: dotted for dotted, module in model.named_modules()}

    def record(module: nn.Module, inputs: tuple, output: Any) -> None:
        if inputs and isinstance(inputs[0], Tensor) and isinstance(output, Tensor) and inputs[0].ndim == 4:
            target = targets.pop(module, None) or Target(names[module], module)
            target.inputs.append(inputs[0][:0].clone())
            target.outputs.append(output[:0].clone())
            targets[module] = target

    training = {module: module.training for module in names}
    hooks = [module.register_forward_hook(record) for module in names]
    try:
        with torch.no_grad():
            model.eval()(example)
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"the model does not run on an example {tuple(example.shape)}: {error}") from error
    finally:
        for hook in hooks:
            hook.remove()
        for module, was_training in training.items():
            module.training = was_training
    return list(targets.values())


def select(targets: list[Target], where: Where, reads_out: bool) -> list[Target]:
    """The targets of the right kind that ``where`` asks for, none inside another.

    Raises:
        ValueError: if there is none.
    """
    kinds = {"head"} if reads_out else {"pool", "conv"}
    found = [target for target in targets if target.name and target.kind in kinds]
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
    if not chosen:
        there = (
            ", ".join(target.name for target in found) or "none (calls of torch.nn.functional do not count)"
        )
        raise ValueError(
            f"nothing to replace where={where!r}; modules of kind {'/'.join(sorted(kinds))}: {there}"
        )
    return chosen[-1:] if reads_out and where in (None, "head") else chosen


def pattern(where: str) -> re.Pattern:
    """The regular expression ``where``.

    Raises:
        ValueError: if it is none.
    """
    try:
        return re.compile(where)
    except re.error as error:
        raise ValueError(f"where={where!r} is no regular expression: {error}") from error
