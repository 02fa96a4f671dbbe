"""Import Lightning without three packages that take nine tenths of its import, and that no run uses.

Lightning asks torchmetrics and torch's compiler for types, to recognise what it might be given and to base
records on that we do not keep, and torch for its counter of operations, for summaries that we do not print.
Others stand in for the three while Lightning is imported: torchmetrics would bring torchvision, scipy and
matplotlib along, and the counter Triton. Whoever asks more of any gets the real one, then or later.
``CNNPOOL_LEAN=0`` leaves this out.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


def _unchanged(function: Any, *_: Any, **__: Any) -> Any:
    """What ``torch.compiler.disable`` makes of a function that nobody compiles."""
    return function


def _metrics() -> ModuleType:
    import torchmetrics

    return torchmetrics


def _compiler() -> ModuleType:
    import torch._dynamo

    return torch._dynamo


def _counter() -> ModuleType:
    import torch.utils.flop_counter

    return torch.utils.flop_counter


def _counting(*args: Any, **kwargs: Any) -> Any:
    """A ``FlopCounterMode``, for a summary that somebody else prints."""
    return _counter().FlopCounterMode(*args, **kwargs)


ANSWERS = {
    "torchmetrics": ({"Metric": object, "MetricCollection": object}, _metrics),
    "torch._dynamo": ({"OptimizedModule": object, "disable": _unchanged}, _compiler),
    "torch.utils.flop_counter": ({"FlopCounterMode": _counting}, _counter),
}


class StandIn(ModuleType):
    """A module with a few answers; for anything else it fetches the real one by ``load``."""

    def __init__(self, name: str, answers: dict[str, Any], load: Callable[[], ModuleType]):
        super().__init__(name)
        self._load = load
        # A type that nothing is an instance of.
        self.__dict__.update({k: type(k, (), {}) if v is object else v for k, v in answers.items()})

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        remove(self)
        return getattr(self._load(), attribute)


def remove(standin: StandIn) -> None:
    """Let the next import of its name find the real module."""
    name, (package, _, child) = standin.__name__, standin.__name__.rpartition(".")
    if sys.modules.get(name) is standin:
        del sys.modules[name]
    if package and vars(sys.modules[package]).get(child) is standin:
        delattr(sys.modules[package], child)


@contextmanager
def lean() -> Iterator[None]:
    """Within this context, stand-ins for what is not imported yet."""
    standins = []
    if os.environ.get("CNNPOOL_LEAN") != "0":
        for name, (answers, load) in ANSWERS.items():
            if name not in sys.modules:
                sys.modules[name] = StandIn(name, answers, load)
                standins.append(sys.modules[name])
    try:
        yield
    finally:
        for standin in standins:
            remove(standin)


with lean():
    import lightning.pytorch  # noqa: F401
