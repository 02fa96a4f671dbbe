"""Polyphase sampling by what a small network makes of the s x s phases of a map."""

from typing import Annotated, Unpack

import torch
from annotated_types import Ge, Le
from torch import Tensor, nn

from cnnpool.bounds import AboveZero
from cnnpool.pool.aps import PolyphasePool2d
from cnnpool.pool.autograd.phases import blocks, components
from cnnpool.pool.base import OddTaps, Place, Size, Taps
from cnnpool.pool.edges import WideConv2d


class LpsPool2d(PolyphasePool2d):
    """Keep the one of the s x s subsampled maps that a small network prefers (Rojas-Gomez 2022, LPS).

    The logit of a phase is the mean of conv(relu(conv(x_k))), the same network for every phase. Training
    mixes the phases by softmax((logits + Gumbel noise)/tau); evaluation keeps the phase of the largest logit,
    so that circular shifts of the input shift the output, as long as no two logits agree to rounding. The
    gradient is dense in training and goes only to the chosen pixels in evaluation.

    Departures from the paper's code: it chooses after the filter by default (with 3 taps an untrained network
    then chooses another phase of 7 images in 10 of rectified noise); its second convolution has ``hidden``
    outputs, whose mean is the logit, the same function as one output, whose logits spread 5 times as far for
    16 channels at the start.

    Edges: H' = ceil(H/s), all convolutions circular; a size that the stride does not divide is first
    padded circularly (the paper's code pads zeros), and shifts then no longer commute exactly.

    Args:
        hidden: channels between the two convolutions, >= 1; null for C.
        kernel_size: of both convolutions, odd, or (vertical, horizontal).
        tau: temperature of the mixture in training, > 0; a schedule may set the attribute ``tau``.
    """

    formula = (
        "x_k, k = argmax_k l_k over the s x s phases x_k, l_k = mean conv(relu(conv(x_k))); training: "
        "sum_k t_k x_k, t_k = softmax_k((l_k + Gumbel noise)/tau), tau a temperature"
    )
    paper = "Rojas-Gomez 2022, arXiv:2210.08001"
    shift = "in evaluation: equivariant to every circular shift, up to a shift of the output"
    gradient = "sparse"
    fixed_channels = True
    random = True

    def __init__(
        self,
        channels: int,
        *,
        stride: Size = 2,
        hidden: Annotated[int, Ge(1), Le(65536)] | None = None,
        kernel_size: OddTaps = 3,
        tau: AboveZero = 1.0,
        filter_size: Taps = 1,
        **place: Unpack[Place],
    ):
        super().__init__(channels, stride, filter_size, **place)
        hidden = channels if hidden is None else hidden
        self.tau = tau
        self.first = WideConv2d(channels, hidden, kernel_size, mode="circular", **place)
        self.second = WideConv2d(hidden, 1, kernel_size, mode="circular", **place)

    def logits(self, x: Tensor) -> Tensor:
        """One number per sample and phase of a complete map, (N, P)."""
        parts = torch.stack(components(x, self.stride), 1)
        score = self.second(self.first(parts.flatten(0, 1)).relu())
        logits: Tensor = score.mean((1, 2, 3)).unflatten(0, parts.shape[:2])
        return logits

    def decide(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        logits = self.logits(x)
        if not self.training:
            return logits.argmax(1)
        gumbel = -torch.empty_like(logits).exponential_().log()
        return ((logits + gumbel) / self.tau).softmax(1)

    def flops(self, height: int, width: int) -> int:
        weights = self.first.weight.numel() + self.second.weight.numel()
        taps = sum(2 * m - 1 for m in self.filter_size if m > 1)
        return self.pixels(height, width) * (2 * weights + self.channels * taps)


class TipsPool2d(PolyphasePool2d):
    """Weighted sum of the s x s subsampled maps, weights per channel (Saha & Gokhale 2024, TIPS).

    y = sum_k t_k x_k with t = softmax over the phases of w_c times the mean of relu(conv_c(x)) on phase k,
    the convolution depthwise. Gradient: t_k, plus the part through the weights: dense.

    Departures from the paper's public code: it averages relu(conv(x)) over s x s tiles of the map in place of
    the phases, so its weights do not follow the phases under a shift, but ours do; it rolls the map at random
    in every forward pass, only for its two extra losses, which are not part of the operator;
    its convolution pads zeros, and odd sizes by a mirrored row or column in front, which exchanges the
    phases: on noise of 31 pixels the outputs differ by 120 %.

    Edges: H' = ceil(H/s), the convolution circular; a size that the stride does not divide is first padded
    circularly.

    Args:
        kernel_size: of the convolution, odd, or (vertical, horizontal).
    """

    formula = "sum_k t_k x_k over the s x s phases x_k, t_k = softmax_k(w mean relu(conv(x))_k), w learnt"
    paper = "Saha & Gokhale 2024, arXiv:2404.07410"
    shift = "equivariant to shifts by multiples of the stride; other shifts move the weights with the phases"
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
        self.conv = WideConv2d(
            channels, channels, kernel_size, mode="circular", groups=channels, bias=False, **place
        )
        self.scale = nn.Parameter(torch.empty(channels, **place).uniform_(-1, 1))

    def decide(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        means = blocks(self.conv(x).relu(), self.stride).mean((2, 4)).flatten(2)
        return (means * self.scale[:, None].to(x.dtype)).softmax(2).transpose(1, 2)

    def flops(self, height: int, width: int) -> int:
        taps = sum(2 * m - 1 for m in self.filter_size if m > 1)
        convolved = 2 * self.conv.weight[0].numel()
        return self.channels * self.pixels(height, width) * (convolved + 4 + taps)
