"""A CNN that learns digits in seconds on a CPU."""

from torch import Tensor, nn
from torch.nn import functional as F

from cnnpool.model.activation import Activation, activate
from cnnpool.model.base import Cnn, PaddingMode, PoolFactory, ReadoutFactory, Width, conv, dry_run


class Sprint(Cnn):
    """Three convolutions, the first with stride 2, and two downsampling stages, s1 and s2.

    5x5 conv(width) with stride 2, s1, 3x3 conv(2 width), s2, 3x3 conv(2 width), readout, linear. Batch
    normalisation and activation follow the downsampling, on a quarter of the elements
    (the order of Jordan 2024, arXiv:2404.00498). The stride of the first convolution is fixed: it saves
    three quarters of the otherwise most expensive layer.

    Args:
        width: channels of the first convolution, >= 1.
        pad_ends: pad the first and the last convolution. Without, 28x28 images give maps of 12x12, 6x6, 3x3
            and 1x1, which leaves readouts nothing to choose; a step takes a third less time. If the
            last map is smaller than its window, it is padded anyway.

    Raises:
        ValueError: also for unpadded convolutions with circular padding, which is meant to avoid borders.
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
        width: Width = 32,
        activation: Activation = "relu",
        padding_mode: PaddingMode = "zeros",
        pad_ends: bool = True,
    ):
        if not pad_ends and padding_mode == "circular":
            raise ValueError("pad_ends=False makes borders: leave it at True where padding_mode is circular")
        stages = {"s1": pool("s1", width), "s2": pool("s2", 2 * width)}
        dilation = stages["s1"].dilates
        further = dilation * stages["s2"].dilates
        maps = nn.Sequential(
            conv(in_channels, width, 5, stride=2, padding_mode=padding_mode, padded=pad_ends),
            stages["s1"],
            nn.BatchNorm2d(width),
            activate(activation, width),
            conv(width, 2 * width, dilation=dilation, padding_mode=padding_mode),
            stages["s2"],
            nn.BatchNorm2d(2 * width),
            activate(activation, 2 * width),
        )
        if pad_ends or min(dry_run(maps, stages, in_channels, size)[1:]) <= 2 * further:
            last = conv(2 * width, 2 * width, dilation=further, padding_mode=padding_mode)
        else:
            last = WholeConv2d(2 * width, 2 * width, 3, dilation=further)
        layers = nn.Sequential(*maps, last, nn.BatchNorm2d(2 * width), activate(activation, 2 * width))
        super().__init__(layers, stages, in_channels, size, num_classes, readout)


class WholeConv2d(nn.Conv2d):
    """A convolution without padding and bias: a matrix product where its window covers the map, faster."""

    def __init__(self, in_channels: int, channels: int, kernel_size: int, *, dilation: int = 1):
        super().__init__(in_channels, channels, kernel_size, dilation=dilation, bias=False)
        nn.init.kaiming_normal_(self.weight, nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[2:] != self.kernel_size or self.dilation != (1, 1):
            return super().forward(x)
        # In the memory order of a channels-last map.
        image, weight = (t.permute(0, 2, 3, 1).flatten(1) for t in (x, self.weight))
        return F.linear(image, weight)[:, :, None, None]
