"""Mixtures of pooling: of maximum and average by share, draw or gate, and of learnt filters in a tree."""

import math
from typing import Annotated, Literal, Unpack

import torch
from annotated_types import Ge, Le
from torch import Tensor, nn

from cnnpool.bounds import Share
from cnnpool.pool.avg import avg_pool2d
from cnnpool.pool.base import Cells, Padding, Place, Size, WindowPool2d
from cnnpool.pool.cells import cells, weighted_sum
from cnnpool.pool.internals import is_transforming
from cnnpool.pool.leaves import one_node
from cnnpool.pool.max import max_pool2d
from cnnpool.pool.scalar import Fraction, Per, repeats
from cnnpool.pool.window import IntPair, Window, wide, window_on


def max_and_average(x: Tensor, window: Window) -> tuple[Tensor, Tensor]:
    """Maximum (first of equal cells) and average over the cells inside the map, in the type of ``x``."""
    average = avg_pool2d(x, *window[:3], window.ceil_mode, count_include_pad=False)
    return max_pool2d(x, *window), average


@one_node
def mixed_pool2d(
    x: Tensor,
    kernel_size: IntPair,
    stride: IntPair | None = None,
    padding: IntPair = 0,
    ceil_mode: bool = False,
    *,
    mix: float | Tensor = 0.5,
) -> Tensor:
    """mix * max + (1 - mix) * average of every window (Lee 2016, arXiv:1509.08985).

    Args:
        mix: share of max, in [0, 1], or a tensor that fits (N, C, H', W').

    Example:
        >>> x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> mixed_pool2d(x, 2), mixed_pool2d(x, 2, mix=0.8)
        (tensor([[[[3.2500]]]]), tensor([[[[3.7000]]]]))
    """
    if not isinstance(mix, Tensor) and not 0 <= mix <= 1:
        raise ValueError(f"mix must be in [0, 1], got {mix}")
    window = window_on(x, kernel_size, stride, padding, ceil_mode)
    largest, average = max_and_average(wide(x), window)
    return (mix * largest + (1 - mix) * average).to(x.dtype)


class MixedPool2d(WindowPool2d):
    """y = a max(x) + (1 - a) mean(x) with learnt a (Lee 2016, arXiv:1509.08985, "mixed").

    A learnt a is sigmoid(raw), so it stays in (0, 1); the paper leaves it free. Gradient: (1 - a)/n to every
    cell, and a more to the first maximum.

    Args:
        mix: share of max, in [0, 1], or where it starts when learnable.
    """

    formula = "a max_i x_i + (1 - a) mean_i x_i, a = mix"
    paper = "Lee 2016, arXiv:1509.08985"
    shift = "equivariant to shifts by multiples of the stride; between max and average"
    gradient = "dense"
    cell_flops = 2

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Size = 2,
        stride: Size = 2,
        padding: Padding = 0,
        ceil_mode: bool = False,
        mix: Share = 0.5,
        learnable: bool = True,
        per: Per = "layer",
        **place: Unpack[Place],
    ):
        super().__init__(channels, kernel_size, stride, padding, ceil_mode, per=per, **place)
        self.mix = Fraction("mix", mix, (repeats(per, channels), 1, 1), learnable=learnable, **place)

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        return mixed_pool2d(x, *self.window, mix=self.mix(wide(x)))


class RandomMixedPool2d(WindowPool2d):
    """Training: max or average pooling, drawn for every sample; eval: mixed by frequency (Yu 2014).

    Gradient in training: that of the pooling that was drawn. The number of draws and the number of those for
    max, except within ``torch.func``, are in the buffers ``draws`` and ``max_draws``; without any, their
    frequency is ``probability``.

    Args:
        probability: of max, in [0, 1].
        per: one draw per sample for all channels (layer), or one per sample and channel.
        evaluate: expected (mix by the frequency) or majority (the more frequent of the two, max on a tie).
    """

    formula = "max_i x_i with the given probability, else mean_i x_i"
    paper = "Yu 2014, Mixed Pooling for Convolutional Neural Networks (RSKT)"
    shift = "in evaluation: equivariant to shifts by multiples of the stride; between max and average"
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
        super().__init__(channels, kernel_size, stride, padding, ceil_mode, per=per, **place)
        self.probability, self.evaluate = probability, evaluate
        # Whole numbers: float32 counters would stop at 2^24 samples.
        for name, shape in (("draws", ()), ("max_draws", (repeats(per, channels),))):
            counts = torch.zeros(shape, dtype=torch.int64, device=place.get("device"))
            self.register_buffer(name, counts)

    def frequency(self) -> Tensor:
        """Share of max among the draws so far, (C,) or (1,), in [0, 1]."""
        share = self.max_draws.float() / self.draws.clamp(min=1)
        return torch.where(self.draws > 0, share, self.probability)

    def _draw(self, x: Tensor) -> Tensor:
        """Whether the maximum is taken, for every sample and channel."""
        samples = x.shape[0] if x.dim() == 4 else 1
        # Not the default dtype: of 256 or 2048 numbers few lie below a small probability.
        numbers = torch.rand(samples, len(self.max_draws), device=x.device, dtype=torch.float32)
        taken = numbers < self.probability
        if not is_transforming():
            self.draws += samples
            self.max_draws += taken.sum(0)
        taken = taken[..., None, None]
        return taken if x.dim() == 4 else taken[0]

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        self.output_size(*x.shape[-2:])
        window = window_on(x, *self.window)
        largest, average = max_and_average(wide(x), window)
        if self.training:
            y = torch.where(self._draw(x), largest, average)
        else:
            share = self.frequency()
            share = (share >= 0.5) if self.evaluate == "majority" else share
            mix = share.to(largest.dtype)[:, None, None]
            y = mix * largest + (1 - mix) * average
            # A share of 0 of an infinite value is nothing.
            y = torch.where(mix == 1, largest, torch.where(mix == 0, average, y))
        return y.to(x.dtype)


def share(logits: Tensor) -> Tensor:
    """Sigmoid with zero slope where it underflows: an infinite gradient times 0 would be NaN."""
    kind = torch.finfo(logits.dtype)
    bound = -math.log(kind.smallest_normal * kind.eps)
    return logits.clamp(-bound, bound).sigmoid()


@one_node
def gated_pool2d(
    x: Tensor,
    weight: Tensor,
    kernel_size: IntPair,
    stride: IntPair | None = None,
    padding: IntPair = 0,
    ceil_mode: bool = False,
) -> Tensor:
    """g max + (1 - g) average of every window with g = sigmoid(weight . x) (Lee 2016, arXiv:1509.08985).

    The gate sees zeros outside the map.

    Args:
        x: maps whose sums of |x| and |weight x| over a window are finite.
        weight: the gate's mask in raster order, (C, kh*kw), or (1, kh*kw) for all channels.

    Example:
        >>> x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> gated_pool2d(x, torch.zeros(1, 4), 2), gated_pool2d(x, torch.full((1, 4), 10.0), 2)
        (tensor([[[[3.2500]]]]), tensor([[[[4.]]]]))
    """
    window = window_on(x, kernel_size, stride, padding, ceil_mode)
    exact = wide(x)
    gate = share(weighted_sum(cells(exact, window), weight))
    largest, average = max_and_average(exact, window)
    return (average + gate * (largest - average)).to(x.dtype)


class GatedPool2d(WindowPool2d):
    """y = g max(x) + (1 - g) mean(x), g = sigmoid(w . x) decided by the window (Lee 2016, arXiv:1509.08985).

    The gate's mask w starts at zero, so the operator starts half max, half average. Gradient: that of the
    mix, plus g (1 - g) w_i (max - mean) through the gate, which sees zeros outside the map.
    """

    formula = "g max_i x_i + (1 - g) mean_i x_i, g = sigmoid(sum_i w_i x_i)"
    paper = "Lee 2016, arXiv:1509.08985"
    shift = "equivariant to shifts by multiples of the stride; between max and average"
    gradient = "dense"
    cell_flops = 4

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Cells = 2,
        stride: Size = 2,
        padding: Padding = 0,
        ceil_mode: bool = False,
        per: Per = "layer",
        **place: Unpack[Place],
    ):
        super().__init__(channels, kernel_size, stride, padding, ceil_mode, per=per, **place)
        size = self.kernel_size[0] * self.kernel_size[1]
        self.weight = nn.Parameter(torch.zeros(repeats(per, channels), size, **place))

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        return gated_pool2d(x, self.weight, *self.window)


@one_node
def tree_pool2d(
    x: Tensor,
    leaves: Tensor,
    gates: Tensor,
    kernel_size: IntPair,
    stride: IntPair | None = None,
    padding: IntPair = 0,
    ceil_mode: bool = False,
) -> Tensor:
    """A binary tree of learnt filters: a node is g left + (1 - g) right, g = sigmoid(gate . x) (Lee 2016).

    Zeros stand outside the map.

    Args:
        x: maps whose sums of |leaf x| and |gate x| over a window are finite.
        leaves: filters v, (M, C or 1, kh*kw), M a power of two: a leaf is v . x.
        gates: gate masks, (M - 1, C or 1, kh*kw), the root first, then level by level from the left.

    Example:
        >>> x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> leaves = torch.stack([torch.full((1, 4), 0.25), torch.ones(1, 4)])
        >>> tree_pool2d(x, leaves, torch.zeros(1, 1, 4), 2)  # half the average, half the sum
        tensor([[[[6.2500]]]])
    """
    width = len(leaves)
    if width < 1 or width & (width - 1) or len(gates) != width - 1:
        raise ValueError(f"a tree of 2^n leaves has 2^n - 1 gates, got {width} leaves and {len(gates)} gates")
    parts = cells(wide(x), window_on(x, kernel_size, stride, padding, ceil_mode))
    nodes = [weighted_sum(parts, leaf) for leaf in leaves]
    while len(nodes) > 1:
        # Gates of the level above: its nodes are numbered from (half of the children) - 1.
        half = len(nodes) // 2
        shares = [share(weighted_sum(parts, gate)) for gate in gates[half - 1 : 2 * half - 1]]
        pairs = zip(nodes[::2], nodes[1::2], shares, strict=True)
        nodes = [right + share * (left - right) for left, right, share in pairs]
    return nodes[0].to(x.dtype)


class TreePool2d(WindowPool2d):
    """A binary tree of learnt pooling filters, mixed at each node by a gate (Lee 2016, arXiv:1509.08985).

    ``levels`` counts as in the paper: 2 is two leaves and one gate, 1 a single linear filter, L has 2^(L-1)
    leaves. The gates start at zero (even shares), the leaves as averages with a tenth of random unevenness:
    equal leaves would get equal gradients forever. Gradient: the mixed filters, plus g (1 - g) w_i
    (left - right) through each gate.

    Edges: torch's size formula, zero padding (a filter that is not an average cannot be renormalised).

    Args:
        levels: of the tree, 1 to 8.
    """

    formula = "g v_1.x + (1 - g) v_2.x, g = sigmoid(w.x), at every node"
    paper = "Lee 2016, arXiv:1509.08985"
    shift = "equivariant to shifts by multiples of the stride; aliases unless it learns low-pass filters"
    gradient = "dense"
    gain = None

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Cells = 2,
        stride: Size = 2,
        padding: Padding = 0,
        ceil_mode: bool = False,
        levels: Annotated[int, Ge(1), Le(8)] = 2,
        per: Per = "layer",
        **place: Unpack[Place],
    ):
        super().__init__(channels, kernel_size, stride, padding, ceil_mode, per=per, **place)
        size, width = self.kernel_size[0] * self.kernel_size[1], 2 ** (levels - 1)
        copies = repeats(per, channels)
        self.leaves = nn.Parameter((1 + 0.1 * torch.randn(width, copies, size, **place)) / size)
        self.gates = nn.Parameter(torch.zeros(width - 1, copies, size, **place))

    def flops(self, height: int, width: int) -> int:
        return 2 * (len(self.leaves) + len(self.gates)) * self.count_cells(height, width)

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        return tree_pool2d(x, self.leaves, self.gates, *self.window)
