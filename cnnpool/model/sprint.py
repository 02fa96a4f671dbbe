"""A CNN that learns digits in seconds on a CPU."""

from torch import nn

from cnnpool.model.base import Cnn, PaddingMode, PoolFactory, ReadoutFactory, conv, norm_relu, positive


class Sprint(Cnn):
    """Three convolutions, the first with stride 2, and two downsampling stages, s1 and s2.

    5x5 conv(width) with stride 2, s1, 3x3 conv(2 width), s2, 3x3 conv(2 width), readout, linear. Batch
    normalisation and ReLU come after the downsampling, where there is a quarter of the numbers to work on
    (the order of Jordan 2024, arXiv:2404.00498). The stride of the first convolution is fixed: it saves three
    quarters of what would be the most expensive layer.

    Args:
        in_channels: C of the images.
        size: (H, W) of the images.
        num_classes: number of logits.
        pool: makes the operator of a stage.
        readout: makes the readout.
        width: channels of the first convolution, >= 1.
        padding_mode: zeros, or circular for exact shift tests.

    Raises:
        ValueError: for an option out of range, or images too small for the stages.
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
        width: int = 32,
        padding_mode: PaddingMode = "zeros",
    ):
        positive(width=width)
        stages = {"s1": pool("s1", width), "s2": pool("s2", 2 * width)}
        dilation = stages["s1"].dilates
        further = dilation * stages["s2"].dilates
        super().__init__(
            nn.Sequential(
                conv(in_channels, width, 5, stride=2, padding_mode=padding_mode),
                stages["s1"],
                *norm_relu(width),
                conv(width, 2 * width, dilation=dilation, padding_mode=padding_mode),
                stages["s2"],
                *norm_relu(2 * width),
                conv(2 * width, 2 * width, dilation=further, padding_mode=padding_mode),
                *norm_relu(2 * width),
            ),
            stages,
            in_channels=in_channels,
            size=size,
            num_classes=num_classes,
            readout=readout,
        )
