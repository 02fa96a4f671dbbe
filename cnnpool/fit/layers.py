"""Groups of a network's layers with their own learning rates, or frozen."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from cnnpool.model import Cnn
from cnnpool.probe.base import examined
from cnnpool.recipe import Recipe

BATCH_NORM = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d | nn.SyncBatchNorm


@dataclass
class Level:
    """The layers of one resolution, and their learning rate in multiples of the recipe's."""

    modules: list[nn.Module] = field(default_factory=list)
    scale: float = 1.0
    trained: bool = True

    @property
    def parameters(self) -> list[nn.Parameter]:
        own = [p for module in self.modules for p in module.parameters(recurse=False)]
        return [p for p in dict.fromkeys(own) if p.requires_grad]


def levels(model: Cnn, example: Tensor) -> list[Level]:
    """The layers of ``model`` by their resolution, the image's first; the last layer is a separate level.

    A new level begins with the first stage that makes a map smaller than all before.
    """
    found: list[Level] = [Level()]
    smallest = [example.shape[-2:].numel()]
    called: dict[nn.Module, int] = {}

    def passed(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if (size := output.shape[-2:].numel()) < smallest[0]:
            smallest[0] = size
            found.append(Level())

    def works(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        called.setdefault(module, len(found) - 1)

    owners = [m for m in model.modules() if any(True for _ in m.parameters(recurse=False))]
    hooks = [
        *(stage.register_forward_hook(passed) for stage in model.stages.values()),
        *(owner.register_forward_pre_hook(works) for owner in owners),
    ]
    try:
        with examined(model), torch.no_grad():
            model(example)
    finally:
        for hook in hooks:
            hook.remove()
    *body, head = called
    for module in body:
        found[called[module]].modules.append(module)
    # Parameters of modules that are not called, but read by their parents.
    found[0].modules += [owner for owner in owners if owner not in called]
    return [*found, Level([head])]


def plan(model: Cnn, recipe: Recipe, example: Tensor) -> list[Level]:
    """The levels of ``model`` with the learning rates of ``recipe``; freezes layers as it says."""
    found = levels(model, example)
    if recipe.freeze >= len(found):
        raise ValueError(
            f"fit.freeze={recipe.freeze} leaves nothing to train: the network has {len(found)} levels, "
            "its last layer among them"
        )
    last = len(found) - 1
    for number, level in enumerate(found):
        level.scale = recipe.layer_decay ** (last - number)
        level.trained = number >= recipe.freeze
        for module in level.modules:
            frozen = recipe.freeze_norm and isinstance(module, BATCH_NORM)
            for p in module.parameters(recurse=False):
                p.requires_grad_(level.trained and not frozen)
    found[-1].scale = recipe.head_rate
    return found


def is_uniform(recipe: Recipe) -> bool:
    rates = recipe.head_rate == recipe.layer_decay == 1
    return rates and not recipe.freeze and not recipe.freeze_norm


def frozen_norms(levels: Sequence[Level], recipe: Recipe) -> list[nn.Module]:
    return [
        module
        for level in levels
        for module in level.modules
        if isinstance(module, BATCH_NORM) and (recipe.freeze_norm or not level.trained)
    ]
