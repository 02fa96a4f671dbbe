"""Attention with a learnt query."""

from typing import Annotated

import torch
from annotated_types import Ge, Le
from torch import Tensor, nn

from cnnpool.readout.base import Readout

Heads = Annotated[int, Ge(1), Le(65536)]


class AttentionPool2d(Readout):
    """Weighted mean of all positions, by attention with a learnt query (Lee 2019; Zhai 2022, MAP head).

    y = W_o concat_h(W_v sum_i a_hi x_i) with a_h = softmax_i(q_h W_k x_i/sqrt(d)).

    The query is a parameter, so a position's weight is a softmax over a linear score. The query is multiplied
    by W_k before the map is read, and W_v is applied after the averaging, so the cost is 4HWC per head, not
    that of projecting every position. The gradient is dense, a_hi times the gradient through W_v, and a term
    for the weights. Positions are not encoded, so their order does not matter.

    Departs from the MAP head of Zhai 2022 in having no feed-forward block after it.

    Args:
        heads: number of heads, a divisor of C; null for one per 64 channels, or 1 if 64 does not divide C.

    Raises:
        ValueError: if heads does not divide C.
    """

    formula = "W_o concat_h(W_v sum_i softmax_i(q_h W_k x_i/sqrt(d)) x_i)"
    paper = "Lee 2019, arXiv:1810.00825"
    shift = "invariant"

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
        tokens = x.flatten(2).mT
        weights = attention_weights(self.query.expand(x.shape[0], -1), self.key.weight, tokens, self.heads)
        mixed: Tensor = self.out(attend(weights, tokens, self.value))
        return mixed


def head_count(channels: int, heads: int | None) -> int:
    """``heads``, or one per 64 channels if null (1 if 64 does not divide ``channels``)."""
    if heads is None:
        return channels // 64 if channels % 64 == 0 else 1
    if channels % heads:
        raise ValueError(f"heads must divide the {channels} channels, got {heads!r}")
    return heads


def attention_weights(query: Tensor, key: Tensor, tokens: Tensor, heads: int) -> Tensor:
    """Attention of each head to each of the tokens (N, L, C), softmax(q_h W_k x_i/sqrt(d)): (N, heads, L).

    ``query`` is one per sample, (N, C); each head takes d = C/heads entries of it and of ``key``, W_k, (C,
    C).
    """
    head_dim = key.shape[0] // heads
    split = query.unflatten(1, (heads, head_dim)) * head_dim**-0.5
    # q (W_k x) = (q W_k) x: with a single query, far fewer products than a key for every token.
    probe = torch.einsum("nhd,hdc->nhc", split, key.unflatten(0, (heads, head_dim)))
    return (probe @ tokens.mT).softmax(2)


def attend(weights: Tensor, tokens: Tensor, value: nn.Linear) -> Tensor:
    """Mean of the values of tokens (N, L, C) by weights (N, heads, L) of sum 1, heads concatenated: (N, C).

    ``value`` is applied to the mean of the tokens, which is the mean of the values.
    """
    heads = weights.shape[1]
    mean = weights.to(tokens.dtype) @ tokens
    return torch.einsum("nhc,hdc->nhd", mean, value.weight.unflatten(0, (heads, -1))).flatten(1) + value.bias


def attention_flops(channels: int, heads: int, tokens: int) -> int:
    """Arithmetic of ``attention_weights`` and ``attend`` for one sample."""
    return heads * tokens * (4 * channels + 4) + 4 * channels**2
