"""Maxima of integers and of quantized maps, which have no gradient."""

import torch
from torch import Tensor

from cnnpool.pool.window import Window, is_channels_last


def maxima(x: Tensor, window: Window) -> Tensor:
    """Maxima of a map that ``window`` has been checked on, in its dtype and memory format."""
    small = not x.is_quantized and x.dtype.itemsize < 4
    if small and x.dim() == 4 and is_channels_last(x):
        # torch refuses a map in this format with more numbers than its integers can count.
        y = torch.max_pool2d(x.contiguous(), *window)
        return y.contiguous(memory_format=torch.channels_last)
    return torch.max_pool2d(x, *window)


def refuse_quantized(x: Tensor, operator: str) -> None:
    """Raise if ``x`` is quantized.

    Raises:
        ValueError: if ``x`` is quantized.
    """
    if x.is_quantized:
        raise ValueError(f"{operator} takes no quantized map, got {x.dtype}: call x.dequantize() first")
