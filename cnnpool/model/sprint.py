"""A CNN that learns digits in seconds on a CPU."""

from torch import Tensor, nn

from cnnpool.model.base import Cnn, PaddingMode, PoolFactory, ReadoutFactory, positive


class Sprint(Cnn):
    """Three 3x3 convolutions and two downsampling stages, s1 and s2, on an image folded to half its size.

    fold, conv(width), s1, conv(2 width), s2, conv(2 width), readout, linear. Folding puts every 2x2 pixels
    into channels, so that the first convolution is one of 6x6 with stride 2, at a quarter of the positions.
    Batch normalisation and ReLU come after the downsampling, where there is a quarter of the numbers to work
    on (the order of Jordan 2024, arXiv:2404.00498).

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
        super().__init__(
            nn.Sequential(
                Fold(),
                conv(4 * in_channels, width, 1, padding_mode),
                stages["s1"],
                *norm(width),
                conv(width, 2 * width, dilation, padding_mode),
                stages["s2"],
                *norm(2 * width),
                conv(2 * width, 2 * width, dilation * stages["s2"].dilates, padding_mode),
                *norm(2 * width),
            ),
            stages,
            in_channels=in_channels,
            size=size,
            num_classes=num_classes,
            readout=readout,
        )


class Fold(nn.Module):
    """Every 2x2 pixels side by side, (N, C, H, W) to (N, 4C, H/2, W/2), without an odd last row or column."""

    def forward(self, x: Tensor) -> Tensor:
        samples, channels, rows, columns = (x.shape[0], x.shape[1], x.shape[2] // 2, x.shape[3] // 2)
        pixels = x.permute(0, 2, 3, 1)[:, : 2 * rows, : 2 * columns]
        pairs = pixels.reshape(samples, rows, 2, columns, 2 * channels).transpose(2, 3)
        return pairs.reshape(samples, rows, columns, 4 * channels).permute(0, 3, 1, 2)


def conv(in_channels: int, channels: int, dilation: int, padding_mode: PaddingMode) -> nn.Conv2d:
    """A 3x3 convolution without bias that keeps the size."""
    layer = nn.Conv2d(
        in_channels,
        channels,
        3,
        padding=dilation,
        dilation=dilation,
        bias=False,
        padding_mode=padding_mode,
    )
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    return layer


def norm(channels: int) -> tuple[nn.Module, nn.Module]:
    """Batch normalisation and ReLU."""
    return nn.BatchNorm2d(channels), nn.ReLU()
