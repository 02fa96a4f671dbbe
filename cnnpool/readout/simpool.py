"""SimPool: attention with the mean as the query."""

import torch
from torch import Tensor, nn

from cnnpool.bounds import AboveZero
from cnnpool.pool.window import wide
from cnnpool.readout.attention import Heads, attention_weights, head_count
from cnnpool.readout.base import Readout

FLOOR = 1e-6


class SimPool2d(Readout):
    """Attention from the mean position to all positions, then a generalised mean (Psomas 2023, SimPool).

    With z = layer norm of x and a_h = softmax_i((W_q mean x)_h W_k z_i/sqrt(d)):
    y = (sum_i a_i (z_i - min_j z_j + 1e-6)^gamma)^(1/gamma) per channel, or sum_i a_i z_i without gamma. The
    gradient is dense, through the weights, the mean and the normalised values. Positions are not encoded.
    Powers are taken in float32 at least.

    Args:
        gamma: exponent of the generalised mean, > 0; null for the plain weighted mean. The authors have
            published a ResNet-50 with 2 and a ViT with 1.25.
        heads: number of heads, a divisor of C; 1 in the paper.

    Raises:
        ValueError: if gamma is not positive, or heads does not divide C.
    """

    formula = "(sum_i softmax_i(W_q mean(x) . W_k z_i/sqrt(d)) (z_i - min z)^gamma)^(1/gamma), z = norm(x)"
    paper = "Psomas 2023, arXiv:2309.06891"
    shift = "invariant"

    def __init__(
        self, channels: int, size: tuple[int, int], *, gamma: AboveZero | None = 2.0, heads: Heads = 1
    ):
        super().__init__()
        self.channels = self.out_features = channels
        self.gamma = gamma
        self.heads = head_count(channels, heads)
        self.norm = nn.LayerNorm(channels)
        self.query = nn.Linear(channels, channels, bias=False)
        self.key = nn.Linear(channels, channels, bias=False)

    def flops(self, height: int, width: int) -> int:
        positions = height * width
        mean_and_norm = 9 * self.channels * positions
        weights = self.heads * positions * (2 * self.channels + 4) + 4 * self.channels**2
        values = (2 if self.gamma is None else 6) * self.channels * positions
        return mean_and_norm + weights + values

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.norm(x.flatten(2).mT)
        weights = attention_weights(self.query(x.mean((2, 3))), self.key.weight, tokens, self.heads)
        values = wide(tokens).unflatten(2, (self.heads, -1))
        if self.gamma is not None:
            values = (values - values.amin(1, keepdim=True) + FLOOR).pow(self.gamma)
        pooled = torch.einsum("nhl,nlhd->nhd", weights.to(values.dtype), values).flatten(1)
        return (pooled if self.gamma is None else pooled.pow(1 / self.gamma)).to(x.dtype)

    def extra_repr(self) -> str:
        return f"gamma={self.gamma}, heads={self.heads}"
