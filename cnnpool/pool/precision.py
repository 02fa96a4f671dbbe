"""The dtype of sums, and the numbers it can hold."""

import torch
from torch import Tensor


def wide(x: Tensor) -> Tensor:
    """``x`` in the dtype of sums: float32 for half precision, else its own.

    Raises:
        ValueError: if ``x`` is not of a floating dtype.
    """
    check_floating(x)
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def wide_of(x: Tensor) -> torch.dtype:
    """The dtype of ``wide(x)``."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def check_floating(x: Tensor) -> None:
    """Raise unless ``x`` is floating-point.

    Raises:
        ValueError: if ``x`` is not of a floating dtype.
    """
    if not x.is_floating_point():
        raise ValueError(f"pooling takes floating-point maps, got {x.dtype}")


def refuse_quantized(x: Tensor, operator: str) -> None:
    """Raise if ``x`` is quantized.

    Raises:
        ValueError: if ``x`` is quantized.
    """
    if x.is_quantized:
        raise ValueError(f"{operator} takes no quantized map, got {x.dtype}: call x.dequantize() first")


def largest_finite(x: Tensor) -> float:
    """A finite stand-in for infinity in the dtype of ``x``, of which two can be subtracted."""
    return torch.finfo(x.dtype).max / 4
