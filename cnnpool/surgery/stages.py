"""The downsampling stages of any model, with names for tables."""

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from cnnpool.model.base import Cnn
from cnnpool.pool import Pool1d, Pool2d, Pool3d
from cnnpool.readout import Readout
from cnnpool.registry import did_you_mean
from cnnpool.surgery import Change
from cnnpool.surgery.dense import ends_in_channels
from cnnpool.surgery.trace import dry_run, select

# The part of a dotted name that ``torch.compile`` adds.
WRAPPED = "_orig_mod."


def stages_of(model: nn.Module, example: Tensor, changes: Sequence[Change] = ()) -> dict[str, nn.Module]:
    """The downsampling of ``model``: its own table of stages, else all pooling and strided convolutions.

    Operators that were swapped in count even if they keep the size. ValueError if the model does not run.
    """
    if isinstance(model, Cnn):
        return dict(model.stages)
    seen = [
        target for target in dry_run(model, example) if not getattr(target.module, "return_indices", False)
    ]
    try:
        found = {target.name: target.module for target in select(seen, None, False)}
    except ValueError:
        found = {}
    order = {target.module: place for place, target in enumerate(seen)}
    for change in changes:
        operators = [module for module in added(change.after) if not isinstance(module, Readout)]
        if operators:
            inside = set(change.after.modules())
            found = {name: module for name, module in found.items() if module not in inside}
            found[change.name] = operators[0]
    ordered = sorted(found.items(), key=lambda item: order.get(item[1], len(order)))
    return {_stem(name): module for name, module in ordered}


def added(after: nn.Module) -> list[nn.Module]:
    """The operators and readouts in a replacement, without the original convolution."""
    return [module for module in after.modules() if isinstance(module, Pool1d | Pool2d | Pool3d | Readout)]


def measurable(stages: Mapping[str, nn.Module]) -> dict[str, nn.Module]:
    """The stages whose maps are (N, C, H, W), as probes read them: all but Swin's own patch merging."""
    return {stage: module for stage, module in stages.items() if not ends_in_channels(module)}


def operators_of(stages: Mapping[str, nn.Module]) -> dict[str, dict[str, str]]:
    """Each stage's operator as in results: its class and its settings as text."""
    return {
        stage: {"name": type(module).__name__, "settings": module.extra_repr()}
        for stage, module in stages.items()
    }


def named_stages(model: nn.Module, names: Sequence[str]) -> dict[str, nn.Module]:
    """The modules with these dotted names, by names with underscores; ValueError names a missing one."""
    modules = {name.replace(WRAPPED, ""): module for name, module in model.named_modules()}
    for name in names:
        if name not in modules:
            raise ValueError(f"the model has no module {name!r}; {did_you_mean(name, list(modules)[1:])}")
    return {_stem(name): modules[name] for name in names}


def _stem(name: str) -> str:
    return name.replace(WRAPPED, "").replace(".", "_")
