"""A number per layer or per channel that an operator holds fixed or learns within its range."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Per = Literal["layer", "channel"]


def repeats(per: Per, channels: int) -> int:
    """How many copies of a parameter: one for the layer, or one per channel.

    Raises:
        ValueError: if ``per`` is neither.
    """
    if per not in ("layer", "channel"):
        raise ValueError(f"per must be 'layer' or 'channel', got {per!r}")
    return channels if per == "channel" else 1


class Positive(nn.Module):
    """A number above ``above``: the value itself when fixed, else above + softplus(raw) with ``raw`` learnt.

    Calling it gives a plain number when fixed, else (copies, 1, 1) in the type of ``x``.

    Raises:
        ValueError: if ``value`` is not a finite number above ``above``.
    """

    def __init__(self, name: str, value: float, copies: int, *, learnable: bool, above: float = 0.0):
        super().__init__()
        if not above < value < float("inf"):
            kind = "learnable " if learnable else ""
            raise ValueError(f"{kind}{name} must be finite and above {above:g}, got {value}")
        self.value, self.above, self.learnable = float(value), above, learnable
        if learnable:
            start = torch.full((copies,), value - above, dtype=torch.float64)
            # The inverse of softplus, log(e^v - 1), without the overflow at large v.
            self.raw = nn.Parameter((start + torch.log(-torch.expm1(-start))).to(torch.get_default_dtype()))

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
        ValueError: if ``value`` is outside [0, 1], or at an end and learnable (an end has no gradient).
    """

    def __init__(self, name: str, value: float, shape: tuple[int, ...], *, learnable: bool):
        super().__init__()
        if not 0 <= value <= 1:
            raise ValueError(f"{name} must be in [0, 1], got {value}")
        if learnable and value in (0, 1):
            raise ValueError(f"learnable {name} must start strictly between 0 and 1, got {value}")
        self.value, self.learnable, self.shape = float(value), learnable, shape
        if learnable:
            # One-dimensional, so that weight decay leaves it alone as it does every bias.
            size = torch.Size(shape).numel()
            self.raw = nn.Parameter(torch.full((size,), value).logit())

    def forward(self, x: Tensor) -> Tensor | float:
        return self.raw.to(x.dtype).sigmoid().reshape(self.shape) if self.learnable else self.value

    def extra_repr(self) -> str:
        return f"{self.value:g}, learnable={self.learnable}"
