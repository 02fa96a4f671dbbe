"""Backbones with a pool per stage and a readout."""

from collections.abc import Callable
from typing import Any

from cnnpool import registry
from cnnpool.model.airbench import Airbench
from cnnpool.model.base import Cnn, PoolFactory, ReadoutFactory
from cnnpool.model.plain import AllConv, ConvNet, Vgg
from cnnpool.model.resnet20 import Resnet20
from cnnpool.model.sprint import Sprint

MODELS: dict[str, type[Cnn]] = {
    "airbench": Airbench,
    "allconv": AllConv,
    "convnet": ConvNet,
    "resnet20": Resnet20,
    "sprint": Sprint,
    "vgg": Vgg,
}


def build(
    name: str,
    in_channels: int,
    size: tuple[int, int],
    num_classes: int,
    *,
    pool: PoolFactory,
    readout: ReadoutFactory,
    **options: Any,
) -> Cnn:
    """The backbone called ``name`` for images (``in_channels``, *``size``).

    Raises:
        ValueError: for an unknown name or option, a value out of range, or images too small for the stages.
    """
    entry: Callable[..., Cnn] = registry.lookup(MODELS, "models", name)
    own = registry.for_call(entry, name, options)
    return entry(in_channels, size, num_classes, pool=pool, readout=readout, **own)


__all__ = ["MODELS", "Airbench", "AllConv", "Cnn", "ConvNet", "Resnet20", "Sprint", "Vgg", "build"]
