"""Modules in place of calls such as ``F.max_pool2d``, so that they can be swapped."""

import copy
import dis
import inspect
import operator
import pickle
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType, new_class
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from cnnpool.pool.internals import function_of_code

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


DEVICES = "cpu", "cuda", "mps", "xpu"


def _modes() -> list[bool]:
    return [torch.is_grad_enabled(), *map(torch.is_autocast_enabled, DEVICES)]


@contextmanager
def _switched(on: bool) -> Iterator[None]:
    """Gradients and autocast ``on``: a ``forward`` that sets one differs from one of the two states."""
    _, *before = _modes()
    with torch.set_grad_enabled(on):
        try:
            for device in DEVICES:
                torch.set_autocast_enabled(device, on)
            yield
        finally:
            for device, was in zip(DEVICES, before, strict=True):
                torch.set_autocast_enabled(device, was)


class _Shallow(fx.Tracer):
    """Traces a module's own ``forward`` alone; a ValueError if that switches gradients or autocast."""

    proxy_buffer_attributes = True

    def __init__(self) -> None:
        super().__init__()
        self.modes = _modes()

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True

    def create_node(self, *given: Any, **named: Any) -> fx.Node:
        if _modes() != self.modes:
            raise ValueError("a graph does not record gradients or autocast that are switched")
        return super().create_node(*given, **named)


def as_modules(model: nn.Module) -> nn.Module:
    """``model`` with a module in place of each call of a pooling function in a ``forward`` of its own code.

    Returns a copy of the same function and classes, which shares parameters and buffers with ``model``. One
    module stays whose ``forward`` has an optional argument, depends on values, training mode or random
    numbers, sets a buffer, attribute, gradients or autocast, has hooks, or cannot be traced by ``torch.fx``,
    and a ``Sequential`` with a ``forward`` of its own. Another one's ``forward`` keeps what it read in plain
    attributes; its other methods keep their calls.

    Example:
        >>> import torch
        >>> from cnnpool import as_modules
        >>> class Net(torch.nn.Module):
        ...     def forward(self, x):
        ...         return torch.nn.functional.max_pool2d(x, 2)
        >>> as_modules(Net()).max_pool2d
        MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
    """
    model = copy.deepcopy(model, {id(each): each for part in model.modules() for each in _tensors(part)})
    for module in list(model.modules()):
        containers = nn.Sequential, nn.ModuleList, nn.ModuleDict  # Another child is another element.
        if not type(module).__module__.startswith("torch.") and not isinstance(module, containers):
            _convert(module)
    return model


def _tensors(module: nn.Module) -> list[Tensor]:
    own = *module.parameters(False), *module.buffers(False), *vars(module).values()
    return [each for each in own if isinstance(each, Tensor)]


def _convert(module: nn.Module) -> None:
    """Give ``module`` a child and a ``forward`` that calls it for each of its calls, if that is safe."""
    found = _graph(module)
    if found is None or function_of_code is None:
        return
    graph, constants = found
    vars(module).update(constants)
    for node in _calls(graph):
        # Evaluated again: its images may come from a call that was replaced.
        images, pooling = _replacement(node)
        name = _free_name(module, node.target.__name__)
        module.add_module(name, pooling.train(module.training))
        with graph.inserting_before(node):
            node.replace_all_uses_with(graph.call_module(name, (images,)))
        graph.erase_node(node)
    kind: Any = type(module)
    code = graph.python_code("self")
    names = [(name, value) for name, value in code.globals.items() if not isinstance(value, ModuleType)]
    module.__class__ = _with_forward(kind, code.src, tuple(names))


class _Quiet:
    """Keeps a class that knows its subclasses from one more."""

    def __init_subclass__(cls, **_: Any) -> None:
        pass


@cache
def _with_forward(kind: Any, source: str, names: tuple[tuple[str, Any], ...]) -> Any:
    """The class ``kind`` with the ``forward`` of ``source``, which uses ``names`` and ``torch``."""

    def reduced(self: nn.Module, protocol: int) -> tuple[Any, ...]:
        state = kind.__reduce_ex__(self, max(2, protocol))[2:]
        return _blank, (kind, source, names), *state

    own = {"forward": function_of_code(source, {"torch": torch, **dict(names)}), "__reduce_ex__": reduced}
    own |= {key: getattr(kind, key) for key in ("__module__", "__qualname__", "__doc__")}
    return new_class(kind.__name__, (_Quiet, kind), exec_body=lambda body: body.update(own))


def _blank(*given: Any) -> nn.Module:
    """For pickles and copies, which know the class by how it was made."""
    kind: type[nn.Module] = _with_forward(*given)
    return kind.__new__(kind)


def _graph(module: nn.Module) -> tuple[fx.Graph, dict[str, Tensor]] | None:
    """The graph of a ``forward`` with calls; None if it depends on more than its argument or has effects."""
    drawn = _generators()
    try:
        found = _traced(module, True, True) if _is_plain(module) else None
        if found is None or not _calls(found[0]):
            return None
        for state in ((True, False), (False, True), (False, False)):
            graph, constants = _traced(module, *state)
            same = constants.keys() == found[1].keys() and all(
                map(operator.is_, *map(dict.values, (constants, found[1])))
            )
            if str(graph) != str(found[0]) or not same:
                return None
        return found if pickle.dumps(_generators()) == pickle.dumps(drawn) else None
    # Third-party forward methods may raise any exception on symbolic values.
    except Exception:
        return None
    finally:
        random.setstate(drawn[0])
        np.random.set_state(drawn[1])
        torch.random.set_rng_state(torch.from_numpy(drawn[2]))


def _is_plain(module: nn.Module) -> bool:
    """True if ``forward`` is its class's own and takes no arguments but given ones, whatever they are."""
    forward = inspect.unwrap(type(module).forward)
    _, *taken = inspect.signature(forward).parameters.values()
    given = all(each.kind is each.POSITIONAL_OR_KEYWORD and each.default is each.empty for each in taken)
    # Of several arguments one may be None.
    asks = any("NONE" in each.opname or each.opname == "IS_OP" for each in dis.get_instructions(forward))
    # torch has no public name for hooks. Those of other kinds run as before.
    hooked = module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module)
    # Classes that copy in their own way would not expect another class.
    special = {"__deepcopy__", "__reduce__", "__reduce_ex__"}
    usual = not any(special & vars(kind).keys() for kind in type(module).__mro__[:-1])
    of_tensors = {"isinstance", "Tensor"} <= set(forward.__code__.co_names)
    return given and usual and not hooked and not of_tensors and (len(taken) == 1 or not asks)


def _generators() -> tuple[Any, ...]:
    return random.getstate(), np.random.get_state(), torch.random.get_rng_state().numpy()


def _traced(module: nn.Module, training: bool, on: bool) -> tuple[fx.Graph, dict[str, Tensor]]:
    """The graph in a mode of ``training``, with gradients and autocast ``on``, and the tensors of the file
    that it holds by name; an error if an attribute is written.
    """
    children = {id(child): child for child in module.children()}
    tensors = {id(each): each for each in _tensors(module)}
    clones = {
        key: each.detach().clone() for key, each in tensors.items() if not isinstance(each, nn.Parameter)
    }
    module = copy.deepcopy(module, {**children, **tensors, **clones})
    module.training = training
    before, before_names = _attributes(module), set(vars(module))
    with _switched(on):
        graph = _Shallow().trace(module)
    new = vars(module).keys() - before_names
    constants = {key: vars(module).pop(key) for key in sorted(new) if key.startswith("_tensor_constant")}
    after = _attributes(module)
    same = len(before) == len(after) and all(map(operator.is_, before, after))
    if not same or any(each._version for each in clones.values()):
        raise ValueError("a graph does not record what is written")
    return graph, constants


def _attributes(module: nn.Module) -> list[Any]:
    """The attributes of ``module`` and what they hold."""
    found: list[Any] = []
    for value in vars(module).values():
        held = value.values() if isinstance(value, dict) else value if isinstance(value, list | set) else ()
        found += [value, *held]
    return found


def _calls(graph: fx.Graph) -> list[Any]:
    return [node for node in graph.nodes if _replacement(node)]


def _replacement(node: fx.Node) -> Any:
    """The map that a call pools and its module; None if a setting is a value, or indices are returned."""
    if node.op != "call_function" or node.target not in MODULES:
        return None
    kind, names = MODULES[node.target]
    given = dict(zip(("input", *names), node.args, strict=False)) | node.kwargs
    images = given.pop("input", None)
    if node.all_input_nodes != [images] or given.pop("return_indices", False):
        return None
    return images, kind(**given)


def _free_name(module: nn.Module, stem: str) -> str:
    number, name = 1, stem
    while hasattr(module, name):
        number += 1
        name = f"{stem}_{number}"
    return name
