"""The CIFAR residual net."""

from collections.abc import Callable
from functools import partial
from typing import Literal

from torch import Tensor, nn

from cnnpool.model.activation import Activation, activate
from cnnpool.model.base import Cnn, Depth, PaddingMode, PoolFactory, ReadoutFactory, Width, conv_block
from cnnpool.pool.base import Pool2d


class Resnet20(Cnn):
    """He 2016 (arXiv:1512.03385, section 4.2) with configurable downsampling in main path and shortcut.

    A stem convolution, then three groups of ``blocks`` residual blocks of width, 2 width, 4 width channels;
    depth = 6 blocks + 2. The first block of groups two and three downsamples: stage s1 and s2 in the main
    path, s1_shortcut and s2_shortcut beside it, both with the same operator. The operator follows the
    first activation (where Zhang 2019 puts the blur) after a convolution of stride 1; ``subsample`` with ReLU
    and readout ``gap`` give He's net.

    Args:
        width: channels of the first group, >= 1; 16 in the paper.
        blocks: residual blocks per group, >= 1; 3 gives ResNet-20.
        shortcut: A (zeros for the new channels, no parameters) or B (1x1 convolution).
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
        blocks: Depth = 3,
        shortcut: Literal["A", "B"] = "A",
        activation: Activation = "relu",
        padding_mode: PaddingMode = "zeros",
    ):
        layers: list[nn.Module] = [
            conv_block(in_channels, width, active=activation, padding_mode=padding_mode)
        ]
        stages: dict[str, nn.Module] = {}
        channels, dilation = width, 1
        for stage in (None, *self.STAGES):
            for number in range(blocks):
                down = stage if number == 0 else None
                block = ResidualBlock(
                    channels,
                    2 * channels if down else channels,
                    pool=partial(pool, down) if down else None,
                    dilation=dilation,
                    shortcut=shortcut,
                    active=activation,
                    padding_mode=padding_mode,
                )
                layers.append(block)
                if down:
                    stages |= {down: block.pool, f"{down}_shortcut": block.shortcut_pool}
                    channels, dilation = 2 * channels, dilation * block.dilates
        super().__init__(nn.Sequential(*layers), stages, in_channels, size, num_classes, readout)


class ResidualBlock(nn.Module):
    """act(shortcut(x) + conv(pool(act(conv(x))))), normalised after each convolution.

    An operator that chooses a phase of the map per sample (``choose``) chooses once, on the main path.
    """

    def __init__(
        self,
        in_channels: int,
        channels: int,
        *,
        pool: Callable[[int], Pool2d] | None,
        dilation: int,
        shortcut: Literal["A", "B"],
        active: Activation,
        padding_mode: PaddingMode,
    ):
        super().__init__()
        self.first = conv_block(
            in_channels, channels, dilation=dilation, active=active, padding_mode=padding_mode
        )
        self.pool = pool(channels) if pool else nn.Identity()
        self.shortcut_pool = pool(in_channels) if pool else nn.Identity()
        self.dilates = self.pool.dilates if isinstance(self.pool, Pool2d) else 1
        inner = dilation * self.dilates
        # Without its activation, which comes after the sum.
        self.second = conv_block(channels, channels, dilation=inner, padding_mode=padding_mode)[:2]
        self.widen = nn.Identity() if in_channels == channels else WIDEN[shortcut](in_channels, channels)
        self.active = activate(active, channels)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.first(x)
        choose = getattr(self.pool, "choose", None)
        phase = choose(inner) if choose else None
        if phase is None or phase.ndim == 3:
            # Paths with different channels cannot share a phase per channel.
            main, beside = self.pool(inner), self.shortcut_pool(x)
        else:
            # Both paths must sample the same pixels for their sum.
            main, beside = self.pool(inner, phase), self.shortcut_pool(x, phase)
        y: Tensor = self.active(self.second(main) + self.widen(beside))
        return y


class ZeroChannels(nn.Module):
    def __init__(self, in_channels: int, channels: int):
        super().__init__()
        self.extra = channels - in_channels

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.pad(x, (0, 0, 0, 0, self.extra // 2, self.extra - self.extra // 2))


WIDEN: dict[str, Callable[[int, int], nn.Module]] = {
    "A": ZeroChannels,
    # A 1x1 convolution with batch normalisation.
    "B": lambda in_channels, channels: conv_block(in_channels, channels, 1)[:2],
}
