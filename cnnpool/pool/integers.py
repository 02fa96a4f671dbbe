"""Maxima of integers and of quantized maps, which have no gradient."""

import torch
from torch import Tensor

from cnnpool.pool.window import Window, is_channels_last, memory_format


def maxima(x: Tensor, window: Window) -> Tensor:
    """Maxima of a map that ``window`` has been checked on, in its dtype and memory format."""
    # In channels_last torch refuses a map with more numbers than its integers can count.
    y = torch.max_pool2d(x if x.is_quantized else x.contiguous(), *window)
    return y.contiguous(memory_format=memory_format(x.dim() == 4 and is_channels_last(x)))


def refuse_quantized(x: Tensor, operator: str) -> None:
    """Raise if ``x`` is quantized.

    Raises:
        ValueError: if ``x`` is quantized.
    """
    if x.is_quantized:
        raise ValueError(f"{operator} takes no quantized map, got {x.dtype}: call x.dequantize() first")
