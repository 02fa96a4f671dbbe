"""The nets of 'Striving for Simplicity'."""

from typing import Literal

from torch import nn

from cnnpool.bounds import ShareBelowOne
from cnnpool.model.activation import Activation
from cnnpool.model.base import Cnn, PaddingMode, PoolFactory, ReadoutFactory, Trunk, Width

KERNELS = {"A": (5,), "B": (5, 1), "C": (3, 3)}  # Kernel sizes before each stage (Table 1)


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
        trunk = Trunk(in_channels, pool, norm=norm, active=activation, padding_mode=padding_mode)
        trunk.drop(input_dropout)
        for number, stage in enumerate(self.STAGES, start=1):
            for kernel_size in KERNELS[variant]:
                trunk.conv(number * width, kernel_size)
            trunk.stage(stage)
            trunk.drop(dropout)
        trunk.conv(2 * width, 3)
        trunk.conv(2 * width, 1)
        super().__init__(nn.Sequential(*trunk.layers), trunk.stages, in_channels, size, num_classes, readout)
