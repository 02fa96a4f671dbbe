"""The base class of backbones: feature layers, then a readout, then a linear classifier."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import torch
from annotated_types import Ge, Le
from torch import Tensor, nn

from cnnpool.model.activation import Activation, activate
from cnnpool.pool.base import Pool2d
from cnnpool.readout.base import Readout
from cnnpool.registry import checked

PoolFactory = Callable[[str, int], Pool2d]  # (stage name, channels) -> the operator of that stage
ReadoutFactory = Callable[[int, tuple[int, int]], Readout]  # (channels, (H, W)) -> the readout
PaddingMode = Literal["zeros", "circular"]
Width = Annotated[int, Ge(1), Le(16384)]  # Channels of the first layers
Depth = Annotated[int, Ge(1), Le(1000)]  # Number of layers, or of blocks of them, in sequence
BATCH_NORM = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d | nn.SyncBatchNorm


class Cnn(nn.Module):
    """Images (N, in_channels, H, W) to logits (N, num_classes): ``features``, ``readout``, ``classifier``.

    A backbone is constructed as ``Name(in_channels, size, num_classes, *, pool, readout, ...)``: ``pool``
    makes the operator of each stage from its name and channels, and further options have defaults. Most have
    the options ``activation`` and ``padding_mode``.

    Args:
        features: all layers up to the last feature map.
        stages: the downsampling operators inside ``features`` by the name of their stage, in order.
        in_channels: C of the images.
        size: (H, W) of the images.
        num_classes: number of logits.
        readout: called with the channels and size of the last map, found by a dry run.
        dropout: share of the vector's entries dropped before the classifier in training, 0..1.
        activation: relu, gelu, silu; alias_free, a learnt parabola at twice the resolution; alias_free_relu
            or alias_free_gelu, also at twice the resolution.
        padding_mode: zeros, or circular for exact shift tests.

    Raises:
        ValueError: for an option of a backbone that is out of range, or if the images are too small for the
            stages; the message names the stage and the size.
    """

    STAGES: ClassVar[tuple[str, ...]]  # In order; the command line refuses others

    stages: dict[str, nn.Module]

    new_weights: tuple[str, ...] = ()
    """Parameters of a network with published weights that these lack."""

    @property
    def shrinking(self) -> list[tuple[nn.Module, int]]:
        """Modules whose outputs are smaller maps, and the axis of channels in them."""
        return [(stage, 1) for stage in self.stages.values()]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        checked(cls)

    def __init__(
        self,
        features: nn.Module,
        stages: Mapping[str, nn.Module],
        in_channels: int,
        size: tuple[int, int],
        num_classes: int,
        readout: ReadoutFactory,
        *,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.features = features
        self.stages = dict(stages)
        channels, *last = dry_run(features, stages, in_channels, size)
        self.feature_size = (last[0], last[1])
        self.readout = readout(channels, self.feature_size)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(self.readout.out_features, num_classes)

    def initialize(self, batches: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Set values computed from data rather than learnt; ``batches`` are (normalised images, labels)."""

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.classifier(self.dropout(self.readout(self.features(x))))
        return logits


def dry_run(
    features: nn.Module, stages: Mapping[str, nn.Module], in_channels: int, size: tuple[int, int]
) -> tuple[int, int, int]:
    """(C, H', W') of ``features`` of one image; a ValueError names the stage that it does not fit."""
    place, fault, height, width = "the first layers", "", *size

    def enter(stage: str, module: nn.Module, inputs: tuple[Tensor]) -> None:
        nonlocal place, height, width
        place, (height, width) = f"stage {stage} ({type(module).__name__})", inputs[0].shape[-2:]

    def leave(module: nn.Module, inputs: tuple[Tensor], output: object) -> None:
        nonlocal fault
        if isinstance(module, Pool2d) and (fault := module.fault_of(inputs[0], output)):
            raise ValueError(fault)

    hooks = [module.register_forward_pre_hook(partial(enter, stage)) for stage, module in stages.items()]
    hooks += [module.register_forward_hook(leave) for module in stages.values()]
    was_training = features.training
    try:
        with torch.no_grad():
            channels, *last = features.eval()(torch.zeros(1, in_channels, *size)).shape[1:]
    except (ValueError, RuntimeError) as error:
        misfit = (
            f"a {height}x{width} map is too small or does not fit (images are {size[0]}x{size[1]}): "
            f"{str(error).splitlines()[0]}; use a smaller kernel or stride, padding, or fewer stages"
        )
        raise ValueError(f"{place}: {fault or misfit}") from error
    finally:
        features.train(was_training)
        for hook in hooks:
            hook.remove()
    if min(last) < 1:
        raise ValueError(f"{place}: output would be empty for a {height}x{width} map")
    return channels, last[0], last[1]


def conv_block(
    in_channels: int,
    channels: int,
    kernel_size: int = 3,
    *,
    dilation: int = 1,
    norm: bool = True,
    active: Activation = "relu",
    padding_mode: PaddingMode = "zeros",
) -> nn.Sequential:
    layer = conv(
        in_channels, channels, kernel_size, dilation=dilation, bias=not norm, padding_mode=padding_mode
    )
    return nn.Sequential(layer, *([nn.BatchNorm2d(channels)] if norm else []), activate(active, channels))


def conv(
    in_channels: int,
    channels: int,
    kernel_size: int = 3,
    *,
    stride: int = 1,
    dilation: int = 1,
    bias: bool = False,
    padding_mode: PaddingMode = "zeros",
    padded: bool = True,
) -> nn.Conv2d:
    """A convolution initialised for ReLU (He 2015, arXiv:1502.01852); with padding it keeps the size."""
    layer = nn.Conv2d(
        in_channels,
        channels,
        kernel_size,
        stride,
        padding=dilation * (kernel_size // 2) if padded else 0,
        dilation=dilation,
        bias=bias,
        padding_mode=padding_mode,
    )
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer
