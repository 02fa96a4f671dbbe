"""Modules in place of calls such as ``F.max_pool2d``, so that they can be swapped."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional as F

# Arguments of the function -> the module that does the same. Those that return indices stay calls.
MODULES: dict[Callable[..., Any], type[nn.Module]] = {
    F.max_pool2d: nn.MaxPool2d,
    torch.max_pool2d: nn.MaxPool2d,
    F.avg_pool2d: nn.AvgPool2d,
    F.lp_pool2d: nn.LPPool2d,
    F.adaptive_avg_pool2d: nn.AdaptiveAvgPool2d,
    F.adaptive_max_pool2d: nn.AdaptiveMaxPool2d,
}


class _Shallow(fx.Tracer):
    """Traces one module's own ``forward``, none of its children's."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True


def as_modules(model: nn.Module) -> nn.Module:
    """``model`` with a module in place of each call of a pooling function in a ``forward`` of its own code.

    Parameters, buffers and their names stay. So does a module that ``torch.fx`` cannot trace, since its
    ``forward`` depends on values or on being in training; its calls stay calls.

    Args:
        model: left as it was; what is returned shares its parameters.

    Returns:
        A model that computes the same.

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
    for name, module in reversed(list(model.named_modules())):
        if type(module).__module__.startswith("torch."):
            continue
        traced = _traced(module)
        if traced is None:
            continue
        if not name:
            return traced
        parent, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(parent), leaf, traced)
    return model


def _traced(module: nn.Module) -> nn.Module | None:
    """``module`` with modules for its calls; None if it makes none, or cannot be traced."""
    graph = _graph(module)
    if graph is None:
        return None
    calls = [node for node in graph.nodes if node.op == "call_function" and _stands_for(node)]
    if not calls:
        return None
    result = fx.GraphModule(module, graph, type(module).__name__)
    for node in calls:
        name = _free_name(result, node.target.__name__)
        result.add_submodule(name, MODULES[node.target](*node.args[1:], **node.kwargs))
        with graph.inserting_before(node):
            node.replace_all_uses_with(graph.call_module(name, (node.args[0],)))
        graph.erase_node(node)
    result.recompile()
    result.training = module.training
    return result


def _graph(module: nn.Module) -> fx.Graph | None:
    """The graph of ``forward``; None if that depends on values, or on whether the module is in training."""
    mode = module.training
    try:
        graphs = []
        for module.training in (True, False):
            graphs.append(_Shallow().trace(module))
    # Somebody else's forward may raise anything on symbolic values.
    except Exception:
        return None
    finally:
        module.training = mode
    code = {graph.python_code("self").src for graph in graphs}
    return graphs[0] if len(code) == 1 else None


def _stands_for(node: fx.Node) -> bool:
    """Whether a module can make the call: on one tensor, with plain settings."""
    if node.target not in MODULES or node.kwargs.get("return_indices") or not node.args:
        return False
    settings = [*node.args[1:], *node.kwargs.values()]
    return not any(isinstance(each, fx.Node) for each in settings) and "input" not in node.kwargs


def _free_name(module: nn.Module, stem: str) -> str:
    number, name = 1, stem
    while hasattr(module, name):
        number += 1
        name = f"{stem}_{number}"
    return name
