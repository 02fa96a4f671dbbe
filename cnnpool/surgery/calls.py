"""Modules in place of calls such as ``F.max_pool2d``, so that they can be swapped."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F

WINDOW = ("kernel_size", "stride", "padding")
MAX = (*WINDOW, "dilation", "ceil_mode", "return_indices")


def _functions() -> Iterator[tuple[Callable[..., Any], tuple[type[nn.Module], tuple[str, ...]]]]:
    for axes in (1, 2, 3):
        for name, module, settings in (
            ("max_pool", "MaxPool", MAX),
            ("avg_pool", "AvgPool", (*WINDOW, "ceil_mode", "count_include_pad", "divisor_override")),
            ("lp_pool", "LPPool", ("norm_type", "kernel_size", "stride", "ceil_mode")),
            ("adaptive_avg_pool", "AdaptiveAvgPool", ("output_size",)),
            ("adaptive_max_pool", "AdaptiveMaxPool", ("output_size", "return_indices")),
        ):
            yield getattr(F, f"{name}{axes}d"), (getattr(nn, f"{module}{axes}d"), settings)
        yield getattr(torch, f"max_pool{axes}d"), (getattr(nn, f"MaxPool{axes}d"), MAX[:-1])


MODULES = dict(_functions())
"""The module equivalent to a function, and the function's parameters in order: modules have another order."""


class _Shallow(fx.Tracer):
    """Traces one module's own ``forward`` but not those of its children."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True


def as_modules(model: nn.Module) -> nn.Module:
    """``model`` with a module in place of each call of a pooling function in a ``forward`` of its own code.

    Returns a model of the same function, which shares the parameters of ``model``; that is left unchanged. A
    module stays whose ``forward`` depends on values, training mode or random numbers, writes a buffer, has
    hooks, or cannot be traced by ``torch.fx``.

    Example:
        >>> import torch
        >>> from cnnpool import as_modules
        >>> class Net(torch.nn.Module):
        ...     def forward(self, x):
        ...         return torch.nn.functional.max_pool2d(x, 2)
        >>> as_modules(Net()).max_pool2d
        MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
    """
    shared = {id(t): t for t in (*model.parameters(), *model.buffers())}
    model = copy.deepcopy(model, shared)
    made: dict[nn.Module, nn.Module | None] = {}
    # A module with several names becomes one under each of them.
    for name, module in reversed(list(model.named_modules(remove_duplicate=False))):
        if module not in made:
            made[module] = None if type(module).__module__.startswith("torch.") else _traced(module)
        if (traced := made[module]) is not None:
            if not name:
                return traced
            model.set_submodule(name, traced)
    return model


def _traced(module: nn.Module) -> nn.Module | None:
    """``module`` with modules for its calls; None if it has none or cannot be traced."""
    hooked = module._forward_hooks or module._forward_pre_hooks  # torch has no public name for them
    graph = None if hooked else _graph(module)
    if graph is None:
        return None
    calls = [node for node in graph.nodes if _replacement(node)]
    if not calls:
        return None
    result = fx.GraphModule(module, graph, type(module).__name__)
    for node in calls:
        # Evaluated again: its images may come from a call that was replaced.
        images, pooling = _replacement(node)
        name = _free_name(result, node.target.__name__)
        result.add_submodule(name, pooling)
        with graph.inserting_before(node):
            node.replace_all_uses_with(graph.call_module(name, (images,)))
        graph.erase_node(node)
    result.recompile()
    result.training = module.training
    return result


def _graph(module: nn.Module) -> fx.Graph | None:
    """The graph of ``forward``; None if it depends on values or training mode, draws, or writes a buffer."""
    mode, graphs, acts = module.training, [], True
    buffers = {name: (one, one.clone()) for name, one in module.named_buffers(recurse=False)}
    try:
        with torch.random.fork_rng(devices=()):
            drawn = torch.random.get_rng_state()
            for module.training in (True, False):
                graphs.append(_Shallow().trace(module))
            acts = not torch.equal(drawn, torch.random.get_rng_state())
    # Third-party forward methods may raise any exception on symbolic values.
    except Exception:
        return None
    finally:
        module.training = mode
        for name, (one, old) in buffers.items():
            acts |= getattr(module, name) is not one or not torch.equal(one, old)
            setattr(module, name, one.copy_(old))
    if acts:
        return None
    code = {graph.python_code("self").src for graph in graphs}
    return graphs[0] if len(code) == 1 else None


def _replacement(node: fx.Node) -> Any:
    """The map that a call pools and its module; None if a setting is a value, or indices are returned."""
    if node.op != "call_function" or node.target not in MODULES:
        return None
    kind, names = MODULES[node.target]
    given = dict(zip(("input", *names), node.args, strict=False)) | node.kwargs
    images = given.pop("input", None)
    plain = not any(isinstance(each, fx.Node) for each in given.values())
    if not isinstance(images, fx.Node) or not plain or given.pop("return_indices", False):
        return None
    return images, kind(**given)


def _free_name(module: nn.Module, stem: str) -> str:
    number, name = 1, stem
    while hasattr(module, name):
        number += 1
        name = f"{stem}_{number}"
    return name
