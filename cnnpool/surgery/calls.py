"""Modules in place of calls such as ``F.max_pool2d``, so that they can be swapped."""

import ast
import copy
import inspect
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain, count
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F
from torch.overrides import get_overridable_functions

from cnnpool.pool.internals import function_of_code

WINDOW = ("kernel_size", "stride", "padding")
MAX = (*WINDOW, "dilation", "ceil_mode", "return_indices")
LISTS = nn.ModuleList, nn.Sequential


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


def as_modules(model: nn.Module) -> nn.Module:
    """``model`` with a module in place of each call of a pooling function in a ``forward`` of its own code.

    Returns a copy of the same function and classes, which shares parameters and buffers with ``model``. Only
    straight code is converted: assignments to names, arithmetic, loops over a list of children, and calls of
    torch's functions, of children and of methods of such code. Any other module stays as it is: with a
    branch, another loop, a context, an optional argument, an effect, a look at the training mode, hooks or no
    source; and a ``Sequential`` with a ``forward`` of its own. A converted ``forward`` keeps the numbers that
    it read, such as ``self.size``; other methods keep their calls.

    Example:
        >>> import torch
        >>> from cnnpool import as_modules
        >>> class Net(torch.nn.Module):
        ...     def forward(self, x):
        ...         return torch.nn.functional.max_pool2d(x, 2)
        >>> as_modules(Net()).max_pool2d
        MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)
    """
    shared = [
        each
        for part in model.modules()
        for each in (*part.parameters(False), *part.buffers(False), *vars(part).values())
        if isinstance(each, Tensor)
    ]
    model = copy.deepcopy(model, {id(each): each for each in shared})
    for module in list(model.modules()):
        containers = nn.Sequential, nn.ModuleList, nn.ModuleDict  # Another child is another element.
        if not type(module).__module__.startswith("torch.") and not isinstance(module, containers):
            _convert(module)
    return model


def _convert(module: nn.Module) -> None:
    """Give ``module`` a child and a ``forward`` that calls it for each of its calls, if that is safe."""
    graph = _graph(module)
    if graph is None:
        return
    for node in filter(_replacement, list(graph.nodes)):
        # Evaluated again: its images may come from a call that was replaced.
        images, pooling = _replacement(node)
        stem = node.target.__name__
        names = chain([stem], (f"{stem}_{number}" for number in count(2)))
        name = next(name for name in names if not hasattr(module, name))
        module.add_module(name, pooling.train(module.training))
        with graph.inserting_before(node):
            node.replace_all_uses_with(graph.call_module(name, (images,)))
        graph.erase_node(node)
    kind: Any = type(module)
    module.__class__ = _with_forward(kind, graph.python_code("self").src)


@cache
def _with_forward(kind: Any, source: str) -> Any:
    """The class ``kind`` with the ``forward`` of a graph's ``source``."""

    def reduced(self: nn.Module, protocol: int) -> tuple[Any, ...]:
        return _blank, (kind, source), *kind.__reduce_ex__(self, max(2, protocol))[2:]

    scope = dict(fx.Graph().python_code("self").globals)
    own = {"forward": function_of_code(source, scope), "__reduce_ex__": reduced}
    own |= {key: getattr(kind, key) for key in ("__module__", "__qualname__", "__doc__")}
    return type(kind.__name__, (kind,), own)


def _blank(*given: Any) -> nn.Module:
    """For pickles and copies, which know the class by how it was made."""
    kind: type[nn.Module] = _with_forward(*given)
    return kind.__new__(kind)


class _Shallow(fx.Tracer):
    """Traces a module's own ``forward`` alone."""

    proxy_buffer_attributes = True

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return True


def _graph(module: nn.Module) -> fx.Graph | None:
    """The graph of a ``forward`` with calls to replace; None if it might hold less than the code does."""
    kind = type(module)
    # Classes that copy in their own way, or know their subclasses, would not expect another class.
    special = {"__deepcopy__", "__reduce__", "__reduce_ex__", "__init_subclass__"}
    usual = type(kind) is type and not any(special & vars(one).keys() for one in kind.__mro__[:-1])
    # torch has no public name for hooks. Those of other kinds run as before.
    hooked = module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module)
    if function_of_code is None or hooked or not usual:
        return None
    try:
        calls = _Straight(module, kind.forward).calls
        if not any(call in MODULES for call in calls):
            return None
        graph = _Shallow().trace(module)
        for node in graph.nodes:
            # The code would name the types of arguments, which its scope lacks.
            node.type = None
        recorded = [node for node in graph.nodes if node.target in _of_torch()]
        return graph if len(recorded) == len(calls) and any(map(_replacement, graph.nodes)) else None
    # Code may have no source, and raise any exception on symbolic values.
    except Exception:
        return None


@cache
def _of_torch() -> set[Any]:
    """The functions that a graph records."""
    return set(chain.from_iterable(get_overridable_functions().values()))


class _Straight(ast.NodeVisitor):
    """Finds the functions of torch that a method calls; a ValueError if it does what a graph may lack.

    A graph holds what is done to tensors, in one order: no choices, and no other effects.
    """

    NODES = (
        *(ast.Assign, ast.Expr, ast.Return, ast.Name, ast.Attribute, ast.Constant, ast.expr_context),
        *(ast.Call, ast.keyword, ast.Tuple, ast.List, ast.Subscript, ast.Slice),
        *(ast.BinOp, ast.operator, ast.UnaryOp, ast.USub),
    )

    def __init__(self, module: nn.Module, method: Any):
        self.module, self.calls = module, list[Any]()
        (code,) = ast.parse(textwrap.dedent(inspect.getsource(method))).body
        if not isinstance(code, ast.FunctionDef) or code.decorator_list or hasattr(method, "__wrapped__"):
            raise ValueError("a decorator may do anything")
        arguments = inspect.signature(method).parameters.values()
        if any(each.kind is not each.POSITIONAL_OR_KEYWORD for each in arguments) or method.__defaults__:
            raise ValueError("code may ask which arguments are given")
        variables, own = inspect.getclosurevars(method), method.__code__.co_varnames
        known = {**variables.builtins, **variables.globals, **variables.nonlocals}
        self.known = {name: value for name, value in known.items() if name not in own} | {own[0]: module}
        for line in code.body:
            self.visit(line)

    def generic_visit(self, node: ast.AST) -> None:
        if not isinstance(node, self.NODES):
            raise ValueError(f"a graph has no {type(node).__name__}")
        super().generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        value = self.value(node.func)
        if value is None:
            self.visit(node.func)
        elif inspect.ismethod(value) and value.__self__ is self.module:
            self.calls += _Straight(self.module, value.__func__).calls
        elif value in _of_torch():
            self.calls.append(value)
        elif not isinstance(value, nn.Module) or type(value).__call__ is not nn.Module.__call__:
            raise ValueError("other code may do anything")
        for each in (*node.args, *node.keywords):
            self.visit(each)

    def visit_For(self, node: ast.For) -> None:
        """A loop over children is straight code too: a graph holds each turn."""
        children = self.value(node.iter)
        if type(children) not in LISTS or not isinstance(node.target, ast.Name) or node.orelse:
            raise ValueError("a graph knows no other loop")
        for child in children:
            self.known[node.target.id] = child
            for line in node.body:
                self.visit(line)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load) or node.attr == "training":
            raise ValueError("a graph sets no attribute and knows no mode")
        self.visit_Name(node)

    def visit_Name(self, node: ast.Name | ast.Attribute) -> None:
        value = self.value(node)
        if value is None:
            self.generic_visit(node)
        elif not any(value is each for each in (*self.module.parameters(), *self.module.buffers())):
            values = value if type(value) is tuple else (value,)
            if not all(type(each) in (int, float, bool, str, torch.dtype) for each in values):
                raise ValueError("a graph would keep what may change")

    def value(self, node: ast.expr) -> Any:
        """The object that a name or a place in a list means; None for what a graph has of the call."""
        if not isinstance(node, ast.Attribute | ast.Subscript):
            return self.known.get(node.id) if isinstance(node, ast.Name) else None
        holder = self.value(node.value)
        if isinstance(node, ast.Subscript):
            return holder[ast.literal_eval(node.slice)] if type(holder) in LISTS else None
        if holder is None or isinstance(holder, Tensor):
            return None
        # Not the value of a property or of an own ``__getattr__``, which code computes.
        kind: Any = type(holder)
        usual = nn.Module.__getattr__, nn.Module.__getattribute__
        if isinstance(holder, nn.Module) and (kind.__getattr__, kind.__getattribute__) != usual:
            raise ValueError("other code may do anything")
        value = inspect.getattr_static(holder, node.attr, None)
        return getattr(holder, node.attr) if value is None or inspect.isfunction(value) else value


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
