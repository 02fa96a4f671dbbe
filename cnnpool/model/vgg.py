"""A small VGG with batch normalisation."""

from torch import nn

from cnnpool.bounds import ShareBelowOne
from cnnpool.model.activation import Activation
from cnnpool.model.base import Cnn, Depth, PaddingMode, PoolFactory, ReadoutFactory, Trunk, Width


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
        trunk = Trunk(in_channels, pool, active=activation, padding_mode=padding_mode)
        for number, stage in enumerate(self.STAGES):
            for _ in range(depth):
                trunk.conv(2**number * width)
            trunk.stage(stage)
        super().__init__(
            nn.Sequential(*trunk.layers),
            trunk.stages,
            in_channels,
            size,
            num_classes,
            readout,
            dropout=dropout,
        )
