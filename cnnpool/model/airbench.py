"""A CNN that learns small colour images in minutes on a CPU."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cnnpool.model.activation import Activation, activate
from cnnpool.model.base import Cnn, PaddingMode, PoolFactory, ReadoutFactory, Width, conv


class Airbench(Cnn):
    """Whitened pixels, then three blocks of two 3x3 convolutions, each with a stage: s1, s2, s3.

    The network of Jordan 2024 (arXiv:2404.00498, airbench94), who takes a width of 64 and GELU: blocks of
    ``width``, 4 ``width`` and 4 ``width`` channels after the whitening. In a block: convolution, stage,
    normalisation, activation, convolution, normalisation, activation.

    Args:
        width: channels of the first block, >= 1.
        padding_mode: zeros (as in the paper, which does not pad the whitening), or circular for exact shift
            tests.
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
        activation: Activation = "relu",
        padding_mode: PaddingMode = "zeros",
    ):
        whitening = Whitening(in_channels, circular=padding_mode == "circular")
        layers: list[nn.Module] = [whitening, activate(activation, whitening.channels)]
        stages, channels, dilation = {}, whitening.channels, 1
        for stage, outputs in zip(self.STAGES, (width, 4 * width, 4 * width), strict=True):
            stages[stage] = pool(stage, outputs)
            layers += [
                conv(channels, outputs, dilation=dilation, padding_mode=padding_mode),
                stages[stage],
                nn.BatchNorm2d(outputs),
                activate(activation, outputs),
            ]
            dilation *= stages[stage].dilates
            second = conv(outputs, outputs, dilation=dilation, padding_mode=padding_mode)
            layers.append(nn.Sequential(second, nn.BatchNorm2d(outputs), activate(activation, outputs)))
            channels = outputs
        super().__init__(nn.Sequential(*layers), stages, in_channels, size, num_classes, readout)

    def initialize(self, batches: Iterable[tuple[Tensor, Tensor]]) -> None:
        images, _ = next(iter(batches))
        for layer in self.features.modules():
            if isinstance(layer, Whitening):
                layer.whiten(images)


class Whitening(nn.Module):
    """(N, C, H, W) -> (N, 8 C, H - 1, W - 1): 2x2 patches along each of their principal axes, and minus that.

    Divided by the deviation along the axis; a bias is learnt. The axes are those of the images passed to
    ``whiten``; before that, those of the pixels. ``circular`` wraps the images around and keeps their size.
    """

    def __init__(self, in_channels: int, *, circular: bool = False):
        super().__init__()
        self.weight: Tensor
        size = 4 * in_channels
        self.channels = 2 * size
        self.circular = circular
        self.bias = nn.Parameter(torch.zeros(self.channels))
        self.register_buffer("weight", _signed(torch.eye(size).view(size, in_channels, 2, 2)))

    def whiten(self, images: Tensor) -> None:
        """Compute the axes and deviations of ``images``, (N, C, H, W) with H, W >= 2."""
        patches = F.unfold(images.float(), 2).transpose(1, 2).flatten(0, 1).double()
        patches -= patches.mean(0)
        variance, axes = torch.linalg.eigh(patches.T @ patches / len(patches))
        # The paper's epsilon, which keeps axes with little variance small.
        filters = (axes / (variance + 5e-4).sqrt()).T.flip(0)
        self.weight.copy_(_signed(filters.view(-1, *self.weight.shape[1:])))

    def forward(self, x: Tensor) -> Tensor:
        if self.circular:
            x = F.pad(x, (0, 1, 0, 1), mode="circular")
        return F.conv2d(x, self.weight, self.bias)


def _signed(filters: Tensor) -> Tensor:
    return torch.cat((filters, -filters))
