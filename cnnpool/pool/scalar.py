"""A number per layer or per channel that an operator holds fixed or learns within its range."""

import math
from typing import Literal, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cnnpool.pool.base import Place, placed

Per = Literal["layer", "channel"]


def repeats(per: Per, channels: int) -> int:
    """How many copies of a parameter: one for the layer, or one per channel."""
    return channels if per == "channel" else 1


class Positive(nn.Module):
    """A number above ``above``: the value itself when fixed, else above + softplus(raw) with ``raw`` learnt.

    Calling it gives a plain number when fixed, else (copies, 1, 1) in the type of ``x``.

    Raises:
        ValueError: if ``value`` is learnable, and not a finite number above ``above``.
    """

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
        super().__init__()
        if learnable and not above < value < math.inf:
            raise ValueError(f"{name} must be finite and above {above:g} to be learnable, got {value}")
        self.value, self.above, self.learnable = float(value), above, learnable
        if learnable:
            start = torch.full((copies,), value - above, dtype=torch.float64)
            # The inverse of softplus, log(e^v - 1), without the overflow at large v.
            raw = start + torch.log(-torch.expm1(-start))
            self.raw = nn.Parameter(placed(raw, **place))

    def forward(self, x: Tensor) -> Tensor | float:
        if not self.learnable:
            return self.value
        return (self.above + F.softplus(self.raw.to(x.dtype)))[:, None, None]

    def extra_repr(self) -> str:
        return f"{self.value:g}, learnable={self.learnable}"


class Fraction(nn.Module):
    """A number in [0, 1]: the value itself when fixed, else sigmoid(raw) with ``raw`` learnt.

    Calling it gives a plain number when fixed, else ``shape`` in the type of ``x``.

    Raises:
        ValueError: if ``value`` is 0 or 1 and learnable: an end has no gradient.
    """

    def __init__(
        self,
        name: str,
        value: float,
        shape: tuple[int, ...],
        *,
        learnable: bool,
        **place: Unpack[Place],
    ):
        super().__init__()
        if learnable and value in (0, 1):
            raise ValueError(f"{name} must be above 0 and below 1 to be learnable, got {value}")
        self.value, self.learnable, self.shape = float(value), learnable, shape
        if learnable:
            # One-dimensional, so that weight decay leaves it alone as it does every bias.
            size = torch.Size(shape).numel()
            self.raw = nn.Parameter(placed(torch.full((size,), value).logit(), **place))

    def forward(self, x: Tensor) -> Tensor | float:
        return self.raw.to(x.dtype).sigmoid().reshape(self.shape) if self.learnable else self.value

    def extra_repr(self) -> str:
        return f"{self.value:g}, learnable={self.learnable}"
