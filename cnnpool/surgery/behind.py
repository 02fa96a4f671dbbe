"""The place of an operator behind the activation that follows a strided convolution, found by a dry run."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from cnnpool.surgery.fitting import InPlaceOf
from cnnpool.surgery.trace import CONVOLUTION, Target, Watch, dry_run, tensors

After = Literal["convolution", "activation"]
"""The operator follows a convolution that had the stride at once, or behind normalisation and activation."""
Value = tuple[int, int]
"""A tensor's identity and version: a layer that works in place makes another value of the same tensor."""
NORMS = {"batch_norm", "group_norm", "instance_norm", "add", "sub", "mul", "div"}
"""Between convolution and activation; arithmetic with a number for each channel, as frozen norms do it."""
ACTIVATIONS = {
    *("relu", "relu6", "leaky_relu", "rrelu", "prelu", "elu", "celu", "selu", "gelu", "silu", "mish"),
    *("hardswish", "hardtanh", "hardsigmoid", "sigmoid", "logsigmoid", "softplus", "softsign", "tanh"),
}


@dataclass(frozen=True)
class Spot:
    """The module that the operator follows, or stands in front of where the activation has no module."""

    target: Target
    follows: bool

    def holding(self, operator: nn.Module) -> InPlaceOf:
        """The module and the ``operator``, in place of the module."""
        module = self.target.module
        layers = (module, operator) if self.follows else (operator, module)
        return InPlaceOf(*layers).show(module, 1 - self.follows)

    def __str__(self) -> str:
        return f"{'behind' if self.follows else 'before'} {self.target.name}"


@dataclass(frozen=True)
class Step:
    """A call of a function of torch, or of a module that calls none: its name and the tensors it took."""

    name: str
    inputs: Sequence[Tensor]
    values: Sequence[Value]
    output: Value | None


@dataclass
class Call:
    """A call of a module: its steps by number, from ``start`` to before ``end``."""

    module: nn.Module
    inputs: Sequence[Value]
    single: bool
    start: int
    end: int = -1
    outputs: Sequence[Value] = ()


def spots(
    model: nn.Module, example: Tensor, targets: Sequence[Target], seen: Sequence[Target]
) -> tuple[dict[nn.Module, Spot], list[str]]:
    """The places behind activations by strided convolution, and the names of those without, but with one.

    A convolution has a place if its map goes to a normalisation alone, or to none, and on to an activation
    alone. The operator follows the module that returns the activation's map, if that is called once;
    otherwise it stands before the module that takes the map, if that is called once and nothing else takes
    it, as in ResNet, whose blocks use one ReLU several times.
    """
    flow = Flow(model)
    dry_run(model, example, flow)
    names = {target.module: target for target in seen}
    stages = {target.module for target in seen if target.kind}
    found, without = {}, []
    for target in targets:
        if isinstance(target.module, CONVOLUTION) and not target.keyword:
            if (value := flow.activation(target.module)) is None:
                continue
            if spot := next(flow.spots(value, names, stages - {target.module}), None):
                found[target.module] = spot
            else:
                without.append(target.name)
    return found, without


class Flow(Watch):
    """Records which functions and modules made and took each tensor in a forward pass."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.root = model
        self.running: list[Call] = []
        self.calls: list[Call] = []
        self.steps: list[Step] = []
        self.takers: dict[Value, list[int]] = defaultdict(list)
        self.returned: set[Value] = set()
        # An identity is that of one tensor only while it lives.
        self.alive: list[Any] = []
        # In inference mode tensors have no version.
        self.written: Counter[int] = Counter()

    def value(self, x: Tensor) -> Value:
        return id(x), self.written[id(x)] if x.is_inference() else x._version

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        taken = list(tensors((args, kwargs)))
        values = [self.value(x) for x in taken]
        result = func(*args, **(kwargs or {}))
        self.written.update(id(y) for y in tensors(result) if any(y is x for x in taken))
        # The dry run itself takes nothing of each map.
        if any(y.numel() for y in tensors(result)):
            self._step(getattr(func, "__name__", ""), taken, values, result)
        return result

    def _step(self, name: str, taken: Sequence[Tensor], values: Sequence[Value], result: Any) -> None:
        for value in dict.fromkeys(values):
            self.takers[value].append(len(self.steps))
        output = self.value(result) if isinstance(result, Tensor) else None
        self.alive.append((taken, result))
        self.steps.append(Step(name.strip("_"), taken, values, output))

    def enter(self, module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.alive.append((given, named))
        inputs = [self.value(x) for x in tensors((given, named))]
        single = len(given) == 1 and isinstance(given[0], Tensor) and not named
        self.running.append(Call(module, inputs, single, len(self.steps)))

    def leave(self, module: nn.Module, given: tuple[Any, ...], output: Any) -> None:
        call = self.running.pop()
        call.outputs = [self.value(x) for x in tensors(output)] if isinstance(output, Tensor) else ()
        # A module may take its input by code that torch does not show, such as an autograd function.
        unseen = [v for v in call.inputs if not any(at >= call.start for at in self.takers[v])]
        if unseen and not set(unseen) & set(call.outputs):
            self._step(type(module).__name__, (), unseen, output)
        call.end = len(self.steps)
        self.calls.append(call)
        if module is self.root:
            self.returned.update(map(self.value, tensors(output)))

    def activation(self, conv: nn.Module) -> Value | None:
        """The map behind the activation to which alone, or by a normalisation, the map of ``conv`` goes."""
        made = [call for call in self.calls if call.module is conv]
        value = made[0].outputs[0] if len(made) == 1 and made[0].outputs else None
        channels = getattr(conv, "out_channels", 0)
        while value is not None and value not in self.returned and len(self.takers[value]) == 1:
            step = self.steps[self.takers[value][0]]
            others = [x for x, taken in zip(step.inputs, step.values, strict=False) if taken != value]
            if not step.inputs or any(x.numel() > channels for x in others):
                return None
            if step.name in ACTIVATIONS:
                return step.output
            value = step.output if step.name in NORMS else None
        return None

    def spots(self, value: Value, names: dict[nn.Module, Target], stages: set[nn.Module]) -> Iterator[Spot]:
        """The places of an operator behind a map, the innermost module first, no ``stages`` in it."""
        times = Counter(call.module for call in self.calls)
        able = [
            call
            for call in self.calls
            if call.single and times[call.module] == 1 and call.module in names
            if call.module is not self.root and not stages & set(call.module.modules())
        ]
        takers = self.takers[value]
        for call in able:
            if value in call.outputs and value not in call.inputs and all(at >= call.end for at in takers):
                yield Spot(names[call.module], True)
        if len(takers) == 1 and value not in self.returned:
            for call in able:
                if value in call.inputs and call.start <= takers[0] < call.end and value not in call.outputs:
                    yield Spot(names[call.module], False)
