"""Convolutions that pad by their stride, as TensorFlow's SAME does: made dense, their samples in place."""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn


def pads_by_stride(conv: nn.Conv2d) -> bool:
    """Whether ``conv`` is one of timm's Same convolutions, at a stride at which its padding depends on it."""
    return type(conv).__name__.endswith("Same") and bool(getattr(conv, "same_pad", True))


class DenseSameConv2d(nn.Module):
    """A Same convolution at stride 1 whose every s-th value is what it gave at stride s.

    Along n pixels, SAME of stride s, window k and dilation d adds
    t(s) = max(0, (ceil(n / s) - 1) s + d (k - 1) + 1 - n) zeros, floor(t / 2) of them in front. At stride 1
    there are more in front, so that all windows lie floor(t(1) / 2) - floor(t(s) / 2) pixels earlier; so many
    values are made at the end and dropped in front.

    Args:
        dense: the convolution at stride 1, (N, C, H, W) to (N, C', H, W).
        stride: that it had, (vertical, horizontal).
    """

    def __init__(self, dense: nn.Conv2d, stride: Sequence[int]):
        super().__init__()
        self.dense = dense
        self.stride = (stride[0], stride[1])

    def forward(self, x: Tensor) -> Tensor:
        down, across = self._early(0, x.shape[2]), self._early(1, x.shape[3])
        y: Tensor = self.dense(F.pad(x, (0, across, 0, down)))
        return y[:, :, down:, across:]

    def _early(self, axis: int, size: int) -> int:
        """How many pixels earlier the windows lie at stride 1."""
        stride, reach = self.stride[axis], self.dense.dilation[axis] * (self.dense.kernel_size[axis] - 1)
        zeros = max(0, (-(-size // stride) - 1) * stride + reach + 1 - size)
        return reach // 2 - zeros // 2

    def extra_repr(self) -> str:
        return f"stride={self.stride}"
