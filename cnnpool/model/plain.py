"""Plain networks, of convolutions and stages in sequence."""

from collections.abc import Callable
from functools import partial
from typing import Literal

from torch import nn

from cnnpool.bounds import ShareBelowOne
from cnnpool.model.activation import Activation
from cnnpool.model.base import Cnn, Depth, PaddingMode, PoolFactory, ReadoutFactory, Width, conv_block

KERNELS = {"A": (5,), "B": (5, 1), "C": (3, 3)}  # Of AllConv's convolutions before each stage (Table 1)


class Trunk:
    """The feature layers of a plain network under construction: convolutions and stages in sequence.

    Tracks the channels, and the dilation that resolution-preserving operators require of later layers.
    ``block`` is ``conv_block`` with its options.
    """

    def __init__(self, in_channels: int, pool: PoolFactory, block: Callable[..., nn.Module]):
        self.channels, self.dilation = in_channels, 1
        self.layers, self.stages = nn.Sequential(), dict[str, nn.Module]()
        self._pool, self._block = pool, block

    def conv(self, channels: int, kernel_size: int = 3) -> None:
        self.layers.append(self._block(self.channels, channels, kernel_size, dilation=self.dilation))
        self.channels = channels

    def stage(self, name: str) -> None:
        operator = self._pool(name, self.channels)
        self.stages[name] = operator
        self.layers.append(operator)
        self.dilation *= operator.dilates

    def drop(self, share: float) -> None:
        if share:
            self.layers.append(nn.Dropout(share))


class ConvNet(Cnn):
    """Four 3x3 convolutions with batch normalisation and two downsampling stages, s1 and s2.

    conv(width), s1, conv(2 width), s2, conv(4 width), conv(4 width), readout, linear: the design of LeNet
    (LeCun 1998) with current layers. The last feature sees 26 pixels of the image, most of a digit, so a
    global readout works too.

    Args:
        width: channels of the first convolution, >= 1.
        dropout: share dropped before the classifier, 0..1.
    """

    STAGES = ("s1", "s2")

    def __init__(
        self,
        in_channels: int,
        size: tuple[int, int],
        num_classes: int,
        *,
        pool: PoolFactory,
        readout: ReadoutFactory,
        width: Width = 16,
        dropout: ShareBelowOne = 0.0,
        activation: Activation = "relu",
        padding_mode: PaddingMode = "zeros",
    ):
        block = partial(conv_block, active=activation, padding_mode=padding_mode)
        trunk = Trunk(in_channels, pool, block)
        trunk.conv(width)
        for number, stage in enumerate(self.STAGES, start=1):
            trunk.stage(stage)
            trunk.conv(2**number * width)
        trunk.conv(4 * width)
        super().__init__(trunk.layers, trunk.stages, in_channels, size, num_classes, readout, dropout=dropout)


class Vgg(Cnn):
    """Blocks of 3x3 convolutions, each followed by a stage: s1, s2, s3 (Simonyan 2015, arXiv:1409.1556).

    Block b has ``depth`` convolutions of 2^(b-1) ``width`` channels, with batch normalisation (Ioffe 2015),
    which the paper's nets do not have.

    Args:
        width: channels of the first block, >= 1.
        depth: convolutions per block, >= 1.
        dropout: share dropped before the classifier, 0..1.
    """

    STAGES = ("s1", "s2", "s3")

    def __init__(
        self,
        in_channels: int,
        size: tuple[int, int],
        num_classes: int,
        *,
        pool: PoolFactory,
        readout: ReadoutFactory,
        width: Width = 32,
        depth: Depth = 2,
        dropout: ShareBelowOne = 0.0,
        activation: Activation = "relu",
        padding_mode: PaddingMode = "zeros",
    ):
        block = partial(conv_block, active=activation, padding_mode=padding_mode)
        trunk = Trunk(in_channels, pool, block)
        for number, stage in enumerate(self.STAGES):
            for _ in range(depth):
                trunk.conv(2**number * width)
            trunk.stage(stage)
        super().__init__(trunk.layers, trunk.stages, in_channels, size, num_classes, readout, dropout=dropout)


class AllConv(Cnn):
    """Springenberg 2015 (arXiv:1412.6806), models A, B and C, with configurable stages s1 and s2.

    The four columns of Table 3 are four operators: Model = ``max`` (kernel 3), Strided-CNN = ``subsample``
    (a stride after a convolution keeps every s-th pixel of it), ConvPool-CNN = ``conv_pool``, All-CNN =
    ``strided``. With readout ``gap`` the linear classifier is the paper's last 1x1 convolution: both are
    linear, so averaging before or after is the same function. The paper has no batch normalisation.

    Args:
        variant: A, B or C.
        width: channels before the first stage, >= 1; 96 in the paper; twice as many afterwards.
        norm: batch normalisation after each convolution.
        input_dropout: share of the input dropped, 0..1; 0.2 in the paper.
        dropout: share dropped after each stage, 0..1; 0.5 in the paper.
    """

    STAGES = ("s1", "s2")

    def __init__(
        self,
        in_channels: int,
        size: tuple[int, int],
        num_classes: int,
        *,
        pool: PoolFactory,
        readout: ReadoutFactory,
        variant: Literal["A", "B", "C"] = "C",
        width: Width = 96,
        norm: bool = True,
        input_dropout: ShareBelowOne = 0.0,
        dropout: ShareBelowOne = 0.0,
        activation: Activation = "relu",
        padding_mode: PaddingMode = "zeros",
    ):
        block = partial(conv_block, norm=norm, active=activation, padding_mode=padding_mode)
        trunk = Trunk(in_channels, pool, block)
        trunk.drop(input_dropout)
        for number, stage in enumerate(self.STAGES, start=1):
            for kernel_size in KERNELS[variant]:
                trunk.conv(number * width, kernel_size)
            trunk.stage(stage)
            trunk.drop(dropout)
        trunk.conv(2 * width, 3)
        trunk.conv(2 * width, 1)
        super().__init__(trunk.layers, trunk.stages, in_channels, size, num_classes, readout)
