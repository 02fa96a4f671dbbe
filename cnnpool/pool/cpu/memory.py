"""Memory for kernels, on the CPU whatever torch's default device is, and numbers as kernels take them."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from cnnpool.pool.cpu import pages

CPU = torch.device("cpu")
BITS = {torch.bfloat16: torch.uint16, torch.float16: torch.int16}


def empty(
    shape: Sequence[int], dtype: torch.dtype, layout: torch.memory_format = torch.contiguous_format
) -> Tensor:
    """Uninitialised memory."""
    return _in_large_pages(torch.empty(shape, dtype=dtype, memory_format=layout, device=CPU))


def empty_like(x: Tensor) -> Tensor:
    """Uninitialised memory as that of ``x``."""
    return _in_large_pages(torch.empty_like(x))


def _in_large_pages(x: Tensor) -> Tensor:
    size = x.nbytes
    if size >= pages.LEAST:
        pages.ask_for_large_pages(x.data_ptr(), size)
    return x


def scratch(size: int) -> Tensor:
    """``size`` uninitialised bytes."""
    return torch.empty(size, dtype=torch.uint8, device=CPU)


def table(values: Sequence[Any], dtype: torch.dtype) -> Tensor:
    """Numbers that kernels read."""
    return torch.tensor(values, dtype=dtype, device=CPU)


@cache
def scalar(value: float, dtype: torch.dtype) -> Any:
    """``value`` as kernels take it: a number, or the bits of half precision as an integer."""
    number = torch.tensor(value, dtype=dtype, device=CPU)
    return number.view(BITS.get(dtype, dtype)).numpy()[()]


def aligned(size: int) -> int:
    """``size`` rounded up to whole cache lines of 64 bytes."""
    return -(-size // 64) * 64
