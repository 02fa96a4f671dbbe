"""Randomly mixed pooling: max or average, drawn at random."""

from typing import Literal, Unpack

import torch
from torch import Tensor

from cnnpool.bounds import Share
from cnnpool.pool.base import Padding, Place, Size, WindowPool2d, checked
from cnnpool.pool.internals import is_transforming
from cnnpool.pool.mixed import mixed_pool2d
from cnnpool.pool.scalar import Per, repeats


@checked
class RandomMixedPool2d(WindowPool2d):
    """Training: max or average pooling, drawn for every sample; eval: mixed by frequency (Yu 2014).

    Gradient in training: that of the pooling that was drawn. The number of draws and the number of those for
    max, except within ``torch.func``, are in the buffers ``draws`` and ``max_draws``; without any, their
    frequency is ``probability``.

    Edges: torch's size formula; cells in the padding or the overhang take no part.

    Args:
        probability: of max, in [0, 1].
        per: one draw per sample for all channels (layer), or one per sample and channel.
        evaluate: expected (mix by the frequency) or majority (the more frequent of the two, max on a tie).
    """

    formula = "max_i x_i or mean_i x_i, each with probability 1/2"
    paper = "Yu 2014, Mixed Pooling for Convolutional Neural Networks (RSKT)"
    shift = "in evaluation: commutes with shifts by multiples of the stride; between max and average"
    gradient = "dense"
    cell_flops = 2
    random = True

    draws: Tensor
    max_draws: Tensor

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Size = 2,
        stride: Size = 2,
        padding: Padding = 0,
        ceil_mode: bool = False,
        probability: Share = 0.5,
        per: Per = "channel",
        evaluate: Literal["expected", "majority"] = "expected",
        **place: Unpack[Place],
    ):
        super().__init__(channels, kernel_size, stride, padding, ceil_mode, **place)
        self.fixed_channels = per == "channel"
        self.probability, self.evaluate = probability, evaluate
        # Whole numbers: float32 counters would stop at 2^24 samples.
        for name, shape in (("draws", ()), ("max_draws", (repeats(per, channels),))):
            counts = torch.zeros(shape, dtype=torch.int64, device=place.get("device"))
            self.register_buffer(name, counts)

    def frequency(self) -> Tensor:
        """Share of max among the draws so far, (C,) or (1,), in [0, 1]."""
        share = self.max_draws / self.draws.clamp(min=1)
        return torch.where(self.draws > 0, share, self.probability)

    def _draw(self, x: Tensor) -> Tensor:
        samples = x.shape[0] if x.dim() == 4 else 1
        taken = torch.rand(samples, len(self.max_draws), device=x.device) < self.probability
        if not is_transforming():
            self.draws += samples
            self.max_draws += taken.sum(0)
        return taken.to(x.dtype)[..., None, None]

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        self.output_size(*x.shape[-2:])
        if self.training:
            mix = self._draw(x)
            mix = mix if x.dim() == 4 else mix[0]
        else:
            share = self.frequency()
            share = (share >= 0.5) if self.evaluate == "majority" else share
            mix = share.to(x.dtype)[:, None, None]
        return mixed_pool2d(x, *self.window, mix=mix)
