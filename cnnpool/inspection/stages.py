"""The downsampling stages of any model, by names that can stand in a table."""

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from cnnpool.model import Cnn
from cnnpool.pool import Pool2d
from cnnpool.readout import Readout
from cnnpool.surgery import Change
from cnnpool.surgery.trace import dry_run, select


def stages_of(model: nn.Module, example: Tensor, changes: Sequence[Change] = ()) -> dict[str, nn.Module]:
    """What downsamples in ``model``: its own table of stages, else all pooling and strided convolutions.

    Operators that were swapped in count even if they keep the size. Dots in names become underscores.

    Raises:
        ValueError: if the model does not run on the example.
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
        operators = [module for module in added(change.after) if isinstance(module, Pool2d)]
        if operators:
            inside = set(change.after.modules())
            found = {name: module for name, module in found.items() if module not in inside}
            found[change.name] = operators[0]
    ordered = sorted(found.items(), key=lambda item: order.get(item[1], len(order)))
    return {name.replace(".", "_"): module for name, module in ordered}


def added(after: nn.Module) -> list[nn.Module]:
    """The operators and readouts in a replacement, without the convolution that it keeps."""
    return [module for module in after.modules() if isinstance(module, Pool2d | Readout)]


def operators_of(stages: Mapping[str, nn.Module]) -> dict[str, dict[str, str]]:
    """Each stage's operator as results name it: its class and its settings in words."""
    return {
        stage: {"name": type(module).__name__, "settings": module.extra_repr()}
        for stage, module in stages.items()
    }
