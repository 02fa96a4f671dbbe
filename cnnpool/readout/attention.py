"""Attention pooling: with a learnt query, CLIP's, and SimPool."""

from typing import Annotated, Literal

import torch
from annotated_types import Ge, Le
from torch import Tensor, nn

from cnnpool.bounds import AboveZero
from cnnpool.pool.window import wide
from cnnpool.readout.base import Readout, check_maps, require_size

Heads = Annotated[int, Ge(1), Le(65536)]
FLOOR = 1e-6


class AttentionPool2d(Readout):
    """Weighted mean of all positions, by attention with a learnt query (Lee 2019; Zhai 2022, MAP head).

    y = W_o concat_h(W_v sum_i a_hi x_i) with a_h = softmax_i(q_h W_k x_i/sqrt(d)).

    The query is a parameter, so a position's weight is a softmax over a linear score. The query is multiplied
    by W_k before the map is read, and W_v is applied after the averaging, so the cost is 4HWC per head, not
    that of projecting every position. The gradient is dense, a_hi times the gradient through W_v, and a term
    for the weights. Positions are not encoded, so their order does not matter.

    Departs from the MAP head of Zhai 2022 in having no feed-forward block after it. Infinity gives NaN, as in
    torch's attention.

    Args:
        heads: number of heads, a divisor of C; null for one per 64 channels, or 1 if 64 does not divide C.

    Raises:
        ValueError: if heads does not divide C.
    """

    formula = "W_o concat_h(W_v sum_i softmax_i(q_h W_k x_i/sqrt(d)) x_i)"
    paper = "Lee 2019, arXiv:1810.00825"
    shift = "invariant"
    fixed_channels = True

    def __init__(self, channels: int, size: tuple[int, int], *, heads: Heads | None = None):
        super().__init__()
        self.channels = self.out_features = channels
        self.heads = head_count(channels, heads)
        self.query = nn.Parameter(nn.init.trunc_normal_(torch.empty(channels), std=channels**-0.5))
        # A bias of the keys would shift all scores equally, which softmax cancels.
        self.key = nn.Linear(channels, channels, bias=False)
        self.value = nn.Linear(channels, channels)
        self.out = nn.Linear(channels, channels)

    def flops(self, height: int, width: int) -> int:
        return attention_flops(self.channels, self.heads, height * width) + 4 * self.channels**2

    def forward(self, x: Tensor) -> Tensor:
        check_maps(self, x)
        tokens = x.flatten(2).mT
        weights = attention_weights(self.query.expand(x.shape[0], -1), self.key.weight, tokens, self.heads)
        mixed: Tensor = self.out(attend(weights, tokens, self.value))
        return mixed


class ClipAttentionPool2d(Readout):
    """Multi-head attention from the mean position to all positions and itself (Radford 2021, CLIP).

    A learnt embedding is added to each position, t_i = x_i + e_i and t_0 = mean x + e_0; the vector is
    W_o concat_h(W_v sum_i a_hi t_i) with a_h = softmax_i(q_h W_k t_i/sqrt(d)) and q = W_q t_0. The gradient
    is dense, through the mean, the weights and the values. Scores multiply two entries, as in torch's
    attention: infinity gives NaN, and so does |x| much above 1e18 in float32.

    Args:
        channels: C, and the length of the vector.
        size: (H, W) of the map, the only one accepted: every position has its embedding.
        heads: number of heads, a divisor of C; null for one per 64 channels, or 1 if 64 does not divide C.

    Raises:
        ValueError: if heads does not divide C, or a map has another size.
    """

    formula = "W_o concat_h(W_v sum_i softmax_i(q_h W_k t_i/sqrt(d)) t_i), q = W_q t_0, t_0 = mean x + e_0"
    paper = "Radford 2021, arXiv:2103.00020"
    shift = "changes: each position has its own embedding"
    any_size = False
    fixed_channels = True

    def __init__(self, channels: int, size: tuple[int, int], *, heads: Heads | None = None):
        super().__init__()
        self.channels = self.out_features = channels
        self.size = (size[0], size[1])
        self.heads = head_count(channels, heads)
        self.positions = nn.Parameter(torch.randn(size[0] * size[1] + 1, channels) * channels**-0.5)
        self.query = nn.Linear(channels, channels)
        # A bias of the keys would shift all scores equally, which softmax cancels.
        self.key = nn.Linear(channels, channels, bias=False)
        self.value = nn.Linear(channels, channels)
        self.out = nn.Linear(channels, channels)

    def flops(self, height: int, width: int) -> int:
        tokens = height * width + 1
        prepared = self.channels * (height * width + tokens)
        return prepared + attention_flops(self.channels, self.heads, tokens) + 6 * self.channels**2

    def forward(self, x: Tensor) -> Tensor:
        require_size(self, x, self.size)
        tokens = torch.cat([x.mean((2, 3))[:, None], x.flatten(2).mT], 1) + self.positions
        weights = attention_weights(self.query(tokens[:, 0]), self.key.weight, tokens, self.heads)
        mixed: Tensor = self.out(attend(weights, tokens, self.value))
        return mixed


class SimPool2d(Readout):
    """Attention from the mean position to all positions, then a generalised mean (Psomas 2023, SimPool).

    With z = layer norm of x and a_h = softmax_i((W_q mean x)_h W_k z_i/sqrt(d)):
    y = (sum_i a_i (z_i - min z + 1e-6)^gamma)^(1/gamma), or sum_i a_i z_i without gamma. The gradient is
    dense, through the weights, the mean and the normalised values. Positions are not encoded. Powers are
    taken in float32 at least. Infinity gives NaN, and so does |x| much above 1e18 in float32, whose squares
    the layer norm takes.

    Args:
        gamma: exponent of the generalised mean, > 0; null for the plain weighted mean. The authors have
            published a ResNet-50 with 2 and a ViT with 1.25.
        heads: number of heads, a divisor of C; 1 in the paper.
        variant: ``image``: min z is that of each channel of each image, as in timm, and the norm has eps
            1e-5. ``batch``: it is one number for the whole batch, and eps is 1e-6, as in the authors' code
            and published weights; an image's vector then depends on its batch.

    Raises:
        ValueError: if gamma is not positive, or heads does not divide C.
    """

    formula = "(sum_i softmax_i(W_q mean(x) . W_k z_i/sqrt(d)) (z_i - min z)^gamma)^(1/gamma), z = norm(x)"
    paper = "Psomas 2023, arXiv:2309.06891"
    shift = "invariant"
    fixed_channels = True

    def __init__(
        self,
        channels: int,
        size: tuple[int, int],
        *,
        gamma: AboveZero | None = 2.0,
        heads: Heads = 1,
        variant: Literal["image", "batch"] = "image",
    ):
        super().__init__()
        self.channels = self.out_features = channels
        self.gamma = gamma
        self.heads = head_count(channels, heads)
        self.variant = variant
        self.norm = nn.LayerNorm(channels, eps=1e-6 if variant == "batch" else 1e-5)
        self.query = nn.Linear(channels, channels, bias=False)
        self.key = nn.Linear(channels, channels, bias=False)

    def flops(self, height: int, width: int) -> int:
        positions = height * width
        mean_and_norm = 9 * self.channels * positions
        weights = self.heads * positions * (2 * self.channels + 4) + 4 * self.channels**2
        values = (2 if self.gamma is None else 6) * self.channels * positions
        return mean_and_norm + weights + values

    def forward(self, x: Tensor) -> Tensor:
        check_maps(self, x)
        tokens = self.norm(x.flatten(2).mT)
        weights = attention_weights(self.query(x.mean((2, 3))), self.key.weight, tokens, self.heads)
        values = wide(tokens).unflatten(2, (self.heads, -1))
        if self.gamma is not None:
            whole = self.variant == "batch" and x.shape[0] > 0
            least = values.amin() if whole else values.amin(1, keepdim=True)
            values = values - least + FLOOR
            # Of each channel's largest value, so that no power leaves the range of float32; it cancels.
            largest = values.detach().amax(1, keepdim=True)
            values = (values / largest).pow(self.gamma)
        pooled = torch.einsum("nhl,nlhd->nhd", weights.to(values.dtype), values)
        if self.gamma is not None:
            # The slope of a root is infinite at 0.
            root = pooled.clamp_min(torch.finfo(pooled.dtype).tiny).pow(1 / self.gamma)
            pooled = root * largest.squeeze(1)
        return pooled.flatten(1).to(x.dtype)

    def extra_repr(self) -> str:
        return f"gamma={self.gamma}, heads={self.heads}, variant={self.variant!r}"


def head_count(channels: int, heads: int | None) -> int:
    """``heads``, or one per 64 channels if null (1 if 64 does not divide ``channels``)."""
    if heads is None:
        return channels // 64 if channels % 64 == 0 else 1
    if channels % heads:
        raise ValueError(f"heads must divide the {channels} channels, got {heads!r}")
    return heads


def attention_weights(query: Tensor, key: Tensor, tokens: Tensor, heads: int) -> Tensor:
    """Attention of each head to each of the tokens (N, L, C), softmax(q_h W_k x_i/sqrt(d)): (N, heads, L).

    ``query`` is (N, C); each head takes d = C/heads entries of it and of ``key``, W_k, (C, C).
    """
    head_dim = key.shape[0] // heads
    split = query.unflatten(1, (heads, head_dim)) * head_dim**-0.5
    # q (W_k x) = (q W_k) x: with a single query, far fewer products than a key for every token.
    probe = torch.einsum("nhd,hdc->nhc", split, key.unflatten(0, (heads, head_dim)))
    return (probe @ tokens.mT).softmax(2)


def attend(weights: Tensor, tokens: Tensor, value: nn.Linear) -> Tensor:
    """Mean of the values of tokens (N, L, C) by weights (N, heads, L), the value of their mean: (N, C)."""
    heads = weights.shape[1]
    mean = weights.to(tokens.dtype) @ tokens
    return torch.einsum("nhc,hdc->nhd", mean, value.weight.unflatten(0, (heads, -1))).flatten(1) + value.bias


def attention_flops(channels: int, heads: int, tokens: int) -> int:
    """Arithmetic of ``attention_weights`` and ``attend`` for one sample."""
    return heads * tokens * (4 * channels + 4) + 4 * channels**2
