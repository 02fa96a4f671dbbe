"""Polyphase sampling that mixes the phases of each channel by learnt weights."""

from typing import Unpack

import torch
from torch import Tensor, nn

from cnnpool.pool.aps import PolyphasePool2d
from cnnpool.pool.autograd.phases import blocks
from cnnpool.pool.base import OddTaps, Place, Size, Taps, checked
from cnnpool.pool.edges import EdgeConv2d, conv2d


@checked
class TipsPool2d(PolyphasePool2d):
    """Weighted sum of the s x s subsampled maps, weights per channel (Saha & Gokhale 2024, TIPS).

    y = sum_k t_k x_k with t = softmax over the phases of w_c times the mean of relu(conv_c(x)) on phase k,
    the convolution depthwise. Gradient: t_k, plus the part through the weights: dense.

    Departures from the paper's public code: it averages relu(conv(x)) over s x s tiles of the map in place of
    the phases, so its weights do not follow the phases under a shift, but ours do; it rolls the map at random
    in every forward pass, only for its two extra losses, which are not part of the operator;
    its convolution pads zeros.

    Edges: H' = ceil(H/s), the convolution circular; a size that the stride does not divide is first padded
    circularly.

    Args:
        kernel_size: of the convolution, odd, or (vertical, horizontal).
    """

    formula = "sum_k t_k x_k over the s x s phases x_k, t_k = softmax_k(w mean relu(conv(x))_k), w learnt"
    paper = "Saha & Gokhale 2024, arXiv:2404.07410"
    shift = "commutes with shifts by multiples of the stride; other shifts move the weights with the phases"
    gradient = "dense"
    fixed_channels = True

    def __init__(
        self,
        channels: int,
        *,
        stride: Size = 2,
        kernel_size: OddTaps = 3,
        filter_size: Taps = 1,
        **place: Unpack[Place],
    ):
        super().__init__(channels, stride, filter_size, **place)
        self.conv = EdgeConv2d(
            channels, channels, kernel_size, mode="circular", groups=channels, bias=False, **place
        )
        self.scale = nn.Parameter(torch.empty(channels, **place).uniform_(-1, 1))

    def decide(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        weight = self.conv.weight.to(x.dtype)
        response = conv2d(x, weight, None, 1, self.channels, self.conv.padding_mode).relu()
        means = blocks(response, self.stride).mean((2, 4)).flatten(2)
        return (means * self.scale[:, None].to(x.dtype)).softmax(2).transpose(1, 2)

    def flops(self, height: int, width: int) -> int:
        taps = sum(2 * m - 1 for m in self.filter_size if m > 1)
        convolved = 2 * self.conv.weight[0].numel()
        return self.channels * self.pixels(height, width) * (convolved + 4 + taps)
