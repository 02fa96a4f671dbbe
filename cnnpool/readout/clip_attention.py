"""CLIP's attention pooling."""

import torch
from torch import Tensor, nn

from cnnpool.readout.attention import Heads, attend, attention_flops, attention_weights, head_count
from cnnpool.readout.base import Readout
from cnnpool.readout.flatten import require_size


class ClipAttentionPool2d(Readout):
    """Multi-head attention from the mean position to all positions and itself (Radford 2021, CLIP).

    A learnt embedding is added to each position, t_i = x_i + e_i and t_0 = mean x + e_0; the vector is
    W_o concat_h(W_v sum_i a_hi t_i) with a_h = softmax_i(q_h W_k t_i/sqrt(d)) and q = W_q t_0. The gradient
    is dense, through the mean, the weights and the values.

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
