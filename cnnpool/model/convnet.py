"""A small plain CNN for digits."""

from torch import nn

from cnnpool.bounds import ShareBelowOne
from cnnpool.model.activation import Activation
from cnnpool.model.base import Cnn, PaddingMode, PoolFactory, ReadoutFactory, Trunk, Width


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
        trunk = Trunk(in_channels, pool, active=activation, padding_mode=padding_mode)
        trunk.conv(width)
        for number, stage in enumerate(self.STAGES, start=1):
            trunk.stage(stage)
            trunk.conv(2**number * width)
        trunk.conv(4 * width)
        super().__init__(
            nn.Sequential(*trunk.layers),
            trunk.stages,
            in_channels,
            size,
            num_classes,
            readout,
            dropout=dropout,
        )
