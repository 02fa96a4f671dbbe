"""A number per layer or per channel that an operator holds fixed or learns within its range."""

import math
from typing import Literal, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cnnpool.pool.base import Place, placed

Per = Literal["layer", "channel"]


def repeats(per: Per, channels: int) -> int:
    """Number of copies of a parameter: one for the layer, or one per channel."""
    return channels if per == "channel" else 1


class Scalar(nn.Module):
    """A number that is fixed, or learnt as ``raw``; calling it gives the number in the dtype of ``x``."""

    raw: nn.Parameter

    def __init__(self, value: float, raw: Tensor | None, **place: Unpack[Place]):
        super().__init__()
        self.value, self.learnable = float(value), raw is not None
        if raw is not None:
            self.raw = nn.Parameter(placed(raw, **place))

    def extra_repr(self) -> str:
        return f"{self.value:g}, learnable={self.learnable}"


class Positive(Scalar):
    """A number above ``above``: the value itself when fixed, else above + softplus(raw), (copies, 1, 1)."""

    def __init__(
        self,
        name: str,
        value: float,
        copies: int,
        *,
        learnable: bool,
        above: float = 0.0,
        **place: Unpack[Place],
    ):
        if learnable and not above < value < math.inf:
            rule = f"must be finite and above {above:g} to be learnable"
            raise ValueError(f"{name} {rule}, got {value}; learnable=false fixes it there")
        start = torch.full((copies,), value - above, dtype=torch.float64)
        # The inverse of softplus, log(e^v - 1), without the overflow at large v.
        super().__init__(value, start + torch.log(-torch.expm1(-start)) if learnable else None, **place)
        self.above = above

    def forward(self, x: Tensor) -> Tensor | float:
        if not self.learnable:
            return self.value
        return (self.above + F.softplus(self.raw.to(x.dtype)))[:, None, None]


class Fraction(Scalar):
    """A number in [0, 1]: the value itself when fixed, else sigmoid(raw) in its ``shape``."""

    def __init__(
        self, name: str, value: float, shape: tuple[int, ...], *, learnable: bool, **place: Unpack[Place]
    ):
        if learnable and value in (0, 1):
            rule = "must be above 0 and below 1 to be learnable"
            raise ValueError(f"{name} {rule}, got {value}; learnable=false fixes it there")
        # One-dimensional, so that weight decay leaves it alone as it does every bias.
        start = torch.full((torch.Size(shape).numel(),), value, dtype=torch.float64)
        super().__init__(value, start.logit() if learnable else None, **place)
        self.shape = shape

    def forward(self, x: Tensor) -> Tensor | float:
        return self.raw.to(x.dtype).sigmoid().reshape(self.shape) if self.learnable else self.value
