"""The interface of a probe, and access to a model's maps that leaves the model unchanged."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, NamedTuple, cast

import torch
from annotated_types import Ge, Le
from torch import Tensor, nn

from cnnpool.as_found import buffers_kept
from cnnpool.as_found import examined as examined
from cnnpool.bounds import CountOrZero
from cnnpool.quantity import Quantity, find, numbers
from cnnpool.registry import options_of

Result = dict[str, Any]
Stages = Mapping[str, nn.Module]
AtLeastTwo = Annotated[int, Ge(2), Le(10**9)]
INTEGERS = {getattr(torch, f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)}
Pixels = Annotated[int, Ge(1), Le(256)]
PixelsOrZero = Annotated[int, Ge(0), Le(256)]


class Batch(NamedTuple):
    """The images for probes: ``probe.measure(model, stages, *batch)``.

    Args:
        images: normalised, (N, C, H, W).
        labels: (N,).
        black: the value of a black pixel after normalisation, by channel (C,); None stands for zeros.
        white: the value of a white pixel likewise; None if unknown.
    """

    images: Tensor
    labels: Tensor
    black: Tensor | None = None
    white: Tensor | None = None

    def first(self, samples: int) -> "Batch":
        """The first ``samples`` images, or all if there are fewer."""
        return self._replace(images=self.images[:samples], labels=self.labels[:samples])


@dataclass(kw_only=True)
class Probe(ABC):
    """A measurement of a model: a small object with options that calls pure functions.

    Args:
        every_epochs: measure after every this many epochs; 0: only at the end.

    Raises:
        ValueError: if an option is out of range.
    """

    section: ClassVar[str]
    """The key of the result in ``results.json``, and the first part of its TensorBoard tags."""
    quantities: ClassVar[tuple[Quantity, ...]] = ()
    """Every measured number of the result, its key below ``section``; settings are left out."""
    tried: ClassVar[bool] = True
    """Whether a training may test it on two images before the first step; False if that is slow."""
    checks_options: ClassVar[bool] = True  # In its constructor
    every_epochs: CountOrZero = 0

    def __post_init__(self) -> None:
        for key, option in options_of(type(self)).items():
            object.__setattr__(self, key, option.validate(key, getattr(self, key)))

    def measure(
        self,
        model: nn.Module,
        stages: Stages,
        images: Tensor,
        labels: Tensor,
        black: Tensor | None = None,
        white: Tensor | None = None,
    ) -> Result:
        """The result as nested dictionaries of JSON's types; the arguments as in ``Batch``.

        ``labels`` may be integers of any kind, also of pixels, (N, H, W); a ValueError for others.
        """
        batch = Batch(images, classes_of(images, labels), black, white)
        with buffers_kept(model), examined(model):
            return self.read(model, stages, batch)

    @abstractmethod
    def read(self, model: nn.Module, stages: Stages, batch: Batch) -> Result:
        """Measure ``model``, whose downsampling operators are ``stages``, on a batch."""


def classes_of(images: Tensor, labels: Any, axes: Sequence[int] = (1, 3), remedy: str = "") -> Tensor:
    """``labels`` of the images or their pixels as int64; a ValueError unless they are class indices."""
    whole = isinstance(labels, Tensor) and labels.dtype in INTEGERS
    if not whole or labels.ndim not in axes or labels.shape[:1] != images.shape[:1]:
        raise ValueError(
            f"labels must be one class index per image, integers (N,), got {described(labels)} for "
            f"{len(images)} images{remedy}"
        )
    return cast(Tensor, labels.long())


def described(value: Any) -> str:
    """The type of ``value``; for a tensor also its dtype and shape."""
    if not isinstance(value, Tensor):
        return f"a {type(value).__name__}"
    return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"


@contextmanager
def captured(stages: Stages, *, inputs: bool = False) -> Iterator[dict[str, Tensor]]:
    """The output (or with ``inputs`` the input) of each stage in the latest forward pass, by stage."""
    seen: dict[str, Tensor] = {}

    def hook(stage: str, _: nn.Module, args: Any, named: Any, returned: Tensor) -> Any:
        if not (inputs or isinstance(returned, Tensor)):
            raise ValueError(f"stage {stage} returns {described(returned)}, no map (N, C, H, W)")
        seen[stage] = first_input(args, named) if inputs else returned
        # The next layer may overwrite its input, as ``ReLU(inplace=True)`` does.
        return None if inputs else returned.clone()

    with ExitStack() as hooks, uncompiled():
        for stage, module in stages.items():
            hooks.enter_context(module.register_forward_hook(partial(hook, stage), with_kwargs=True))
        yield seen


def uncompiled() -> AbstractContextManager[Any]:
    """Call the modules of a compiled model, whose graph would pass over their hooks."""
    # A compiled model has loaded dynamo, which takes a second to import.
    loaded = "torch._dynamo" in sys.modules
    return torch.compiler.set_stance("force_eager") if loaded else nullcontext()


def first_input(args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """The map among a module's arguments: the first one, positional or by keyword."""
    return next(iter((*args, *named.values())))


def maps_of(model: nn.Module, stages: Stages, images: Tensor, *, inputs: bool = False) -> dict[str, Tensor]:
    """The output (or with ``inputs`` the input) of each stage for ``images``, without gradients."""
    with examined(model), captured(stages, inputs=inputs) as seen, torch.no_grad():
        model(images.to(device_of(model)))
    return seen


def device_of(model: nn.Module) -> torch.device:
    """The device of the model's first parameter (the CPU if it has none)."""
    return next((p.device for p in model.parameters()), torch.device("cpu"))


def ends_of(mean: Sequence[float], std: Sequence[float]) -> tuple[Tensor, Tensor]:
    """Black and white, (C,) each, in images of 0..1 minus ``mean``, divided by ``std``."""
    means, stds = torch.tensor(mean), torch.tensor(std)
    return -means / stds, (1 - means) / stds


def size_of(maps: Tensor) -> tuple[int, int]:
    """(H, W) of images or maps, (N, C, H, W)."""
    return maps.shape[2], maps.shape[3]


def circumstances(model: nn.Module, images: Tensor, border: str) -> Result:
    """How shifts were measured: fill at the border, number of images, padding of the model."""
    return {"border": border, "samples": len(images), "model_padding": paddings(model)}


def paddings(model: nn.Module) -> list[str]:
    """Padding modes of the model's convolutions, ``none`` if they do not pad."""
    found = {
        module.padding_mode
        for module in model.modules()
        if isinstance(module, nn.Conv2d) and module.padding not in ((0, 0), "valid")
    }
    return sorted(found) or ["none"]


def scalars(quantities: Iterable[Quantity], results: Mapping[str, Any]) -> dict[str, float]:
    """Numbers of ``results`` (section -> result) that one of ``quantities`` describes, by TensorBoard tag."""
    quantities = list(quantities)
    found = [(find(quantities, key), key, value) for key, value in numbers(results) if value is not None]
    return {one.tag_of(key): value for one, key, value in found if one}
