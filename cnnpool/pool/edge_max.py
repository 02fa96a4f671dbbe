"""Max pooling whose windows see something past the edges of the map: :class:`EdgeMaxPool2d`."""

from torch import Tensor

from cnnpool.pool.base import Padding, Size
from cnnpool.pool.edges import PaddingMode, pad
from cnnpool.pool.max import MaxPool2d, max_pool2d
from cnnpool.pool.max_winners import max_pool2d_with_winners


class EdgeMaxPool2d(MaxPool2d):
    """``MaxPool2d`` of a map's first ``channels`` with a padding mode; ``zeros``, which could win, stands for
    windows cut at the edge.
    """

    def __init__(
        self, channels: int, *, kernel_size: Size, stride: Size, padding: Padding, mode: PaddingMode
    ):
        super().__init__(channels, kernel_size=kernel_size, stride=stride, padding=padding)
        self.padding_mode = mode

    def forward(self, x: Tensor) -> Tensor:
        if self.padding_mode == "zeros":
            return super().forward(x[..., : self.channels, :, :])
        self.output_size(*x.shape[-2:])
        down, across = self.padding
        # Before channels are left out: of a single one the memory format would be lost.
        padded = pad(x, (across, across, down, down), self.padding_mode)[..., : self.channels, :, :]
        if not self.keep_winners:
            return max_pool2d(padded, self.kernel_size, self.stride, ties=self.ties)
        y, self.winners = max_pool2d_with_winners(padded, self.kernel_size, self.stride, ties=self.ties)
        return y

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, padding_mode={self.padding_mode!r}"
