"""Windows that slide over a map, the sizes and memory formats of maps, and the dtype of their sums."""

import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from cnnpool.pool.internals import is_exported, smaller

T = TypeVar("T")
IntPair = int | tuple[int, int]
"""Window, stride, padding or dilation: one number, or (vertical, horizontal)."""
PAIR = [int, int]
FLOATING = {torch.float32, torch.float64, torch.bfloat16, torch.float16}
REAL = FLOATING | {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
REAL |= {torch.quint8, torch.qint8, torch.qint32}


class Misfit(ValueError, RuntimeError):
    """A map or a number that an operator cannot take; a RuntimeError too, because torch raises that."""


def pair(value: IntPair, name: str, *, least: int) -> tuple[int, int]:
    """(vertical, horizontal) from one number or two, or a ValueError if one is below ``least``."""
    given = tuple(value) if isinstance(value, tuple | list) else (value,)
    # A sequence of one stands for both axes, as in torch.
    both = tuple(map(integer, given * 2 if len(given) == 1 else given))
    if len(both) != 2 or any(v is None or v < least for v in both):
        raise Misfit(f"{name} must be a whole number of at least {least}, or two of them, got {value!r}")
    return both


def is_unset(stride: Any) -> bool:
    """Whether ``stride`` stands for the kernel's size: None or, as in torch, empty."""
    return stride is None or (isinstance(stride, tuple | list) and not stride)


def integer(value: Any) -> Any:
    """``value`` if it is whole, numpy's integers as Python's, sizes of a trace as they are; else None."""
    if isinstance(value, Tensor) and torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        return value
    if isinstance(value, int | torch.SymInt):
        return None if isinstance(value, bool) else value
    try:
        return operator.index(value)
    except (TypeError, RuntimeError):
        return None


def ceil_div(length: int, by: int) -> int:
    """``length`` over ``by``, rounded up."""
    # For numbers that are not negative: other runtimes round negative quotients towards zero.
    return (length + by - 1) // by


def window_size(length: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    """Number of windows along one axis, torch's rule: floor((H + 2p - d(k-1) - 1)/s) + 1; with ``ceil_mode``
    the last window may overhang, but must start inside the input or its left padding.
    """
    span = length + 2 * padding - dilation * (kernel - 1) - 1
    if not ceil_mode:
        return span // stride + 1
    return smaller(ceil_div(span, stride), (length + padding - 1) // stride) + 1


class Window(NamedTuple):
    """Kernel, stride, padding and dilation as (vertical, horizontal), in the order torch takes them."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    ceil_mode: bool

    @property
    def cells(self) -> int:
        return self.kernel[0] * self.kernel[1]

    @property
    def overlaps(self) -> bool:
        """Whether an input can belong to more than one window."""
        return any(d * (k - 1) >= s for k, s, d in zip(self.kernel, self.stride, self.dilation, strict=True))

    def leaves_out(self, height: int, width: int) -> bool:
        """Whether an input may belong to no window."""
        if any(k < s or d > 1 for k, s, d in zip(self.kernel, self.stride, self.dilation, strict=True)):
            return True
        ends = zip(self.output_size(height, width), self.stride, self.padding, self.kernel, strict=True)
        return any((n - 1) * s - p + k < m for (n, s, p, k), m in zip(ends, (height, width), strict=True))

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """Windows down and across, torch's rule; may be below one."""
        down, across = (
            window_size(length, k, s, p, d, self.ceil_mode)
            for length, k, s, p, d in zip((height, width), *self[:4], strict=True)
        )
        return down, across

    def pads(self, height: int, width: int) -> tuple[int, int, int, int]:
        """Left, right, top and bottom padding that brings every cell inside the map, in a graph the most."""
        if is_exported():
            (top, left), over = self.padding, [s - 1 if self.ceil_mode else 0 for s in self.stride]
            return left, left + over[1], top, top + over[0]
        sides = []
        for length, count, k, s, p, d in zip(
            (height, width), self.output_size(height, width), *self[:4], strict=True
        ):
            sides.append((p, max(0, (count - 1) * s + d * (k - 1) + 1 - length - p)))
        (top, bottom), (left, right) = sides
        return left, right, top, bottom


def window_of(
    kernel_size: IntPair,
    stride: IntPair | None,
    padding: IntPair,
    dilation: IntPair = 1,
    ceil_mode: bool = False,
) -> Window:
    """The window, ``stride=None`` meaning the kernel's size, or a ValueError for a number out of range."""
    kernel = pair(kernel_size, "kernel_size", least=1)
    pads = pair(padding, "padding", least=0)
    if any(2 * p > k for p, k in zip(pads, kernel, strict=True)):
        raise Misfit(f"padding must be at most half of kernel_size={kernel_size}, got {padding}")
    steps = kernel if stride is None or is_unset(stride) else pair(stride, "stride", least=1)
    return Window(kernel, steps, pads, pair(dilation, "dilation", least=1), bool(ceil_mode))


def cached(check: Callable[..., T]) -> Callable[..., T]:
    """``check`` with results cached by shape and options: on a small map it would take most of the time."""
    # Typed, and only pairs of int: 2 and 2.0 are equal, but 2.0 is not a legal size.
    looked_up = lru_cache(maxsize=1024, typed=True)(check)

    def ask(shape: tuple[int, ...], *options: Any) -> T:
        if torch.compiler.is_compiling():
            return check(shape, *options)
        for option in options:
            if isinstance(option, Tensor) or (type(option) is tuple and [*map(type, option)] != PAIR):
                return check(shape, *options)
        try:
            return looked_up(shape, *options)
        except TypeError:
            return check(shape, *options)

    return ask


def check_map(shape: tuple[int, ...], window: Window, operator: str) -> None:
    """Raise a ValueError unless ``shape`` is (C, H, W) or (N, C, H, W), with no empty C, H, W or output."""
    if len(shape) not in (3, 4):
        raise Misfit(f"{operator} takes (N, C, H, W) or (C, H, W), got {tuple(shape)}")
    height, width = shape[-2:]
    if min(shape[-3:]) < 1 or min(window.output_size(height, width)) < 1:
        channels = f"{shape[-3]} channel{'s' * (shape[-3] != 1)}"
        raise Misfit(
            f"{operator}: output would be empty for a {height}x{width} map of {channels}: "
            f"kernel_size={window.kernel}, stride={window.stride}, padding={window.padding}, "
            f"dilation={window.dilation}"
        )


def check_real(x: Tensor, operator: str, *, floating: bool = False) -> None:
    """Raise a ValueError unless ``x`` is (C, H, W) or (N, C, H, W), no axis but N empty, and of a dtype that
    can be pooled; with ``floating`` a floating-point one.
    """
    if x.dtype not in (FLOATING if floating else REAL) or x.dim() not in (3, 4) or min(x.shape[-3:]) < 1:
        kind = "floating-point" if floating else "real"
        sizes = "16 to 64 bits" if floating else "float16 to float64, int8 to int64 or uint8"
        raise Misfit(
            f"{operator} takes {kind} (N, C, H, W) or (C, H, W) of {sizes}, got {x.dtype} of shape "
            f"{tuple(x.shape)}"
        )


def check_batch(x: Tensor, operator: str) -> None:
    """Raise a ValueError unless ``x`` is (N, C, H, W), floating, with no empty C, H or W."""
    if x.dim() != 4 or x.dtype not in FLOATING or min(x.shape[1:]) < 1:
        raise Misfit(
            f"{operator} takes floating-point (N, C, H, W) of 16 to 64 bits, got {x.dtype} of shape "
            f"{tuple(x.shape)}"
        )


def window_on(
    x: Tensor, kernel_size: IntPair, stride: IntPair | None, padding: IntPair, ceil_mode: bool
) -> Window:
    """The window that pools the floating-point ``x``, checked as by ``window_of`` and ``check_map``."""
    check_floating(x)
    return _window_on(x.shape, kernel_size, stride, padding, ceil_mode)


@cached
def _window_on(
    shape: tuple[int, ...], kernel_size: IntPair, stride: IntPair | None, padding: IntPair, ceil_mode: bool
) -> Window:
    window = window_of(kernel_size, stride, padding, ceil_mode=ceil_mode)
    check_map(shape, window, "pooling")
    return window


def wide(x: Tensor) -> Tensor:
    """``x``, floating, in the dtype of sums: float32 for half precision, else its own."""
    check_floating(x)
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def wide_of(x: Tensor) -> torch.dtype:
    """The dtype of ``wide(x)``."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def check_floating(x: Tensor) -> None:
    """Raise a ValueError unless ``x`` is floating-point."""
    if x.dtype not in FLOATING:
        raise Misfit(f"pooling takes floating-point maps of 16 to 64 bits, got {x.dtype}")


def refuse_quantized(x: Tensor, operator: str) -> None:
    """Raise a ValueError if ``x`` is quantized."""
    if x.is_quantized:
        raise Misfit(f"{operator} takes no quantized map, got {x.dtype}: call x.dequantize() first")


def largest_finite(x: Tensor) -> float:
    """A finite stand-in for infinity in the dtype of ``x``, such that two can be subtracted."""
    return torch.finfo(x.dtype).max / 4


def is_channels_last(x: Tensor) -> bool:
    # From the strides: a tensor under vmap cannot be asked for its memory format.
    _, channel, row, column = x.stride()
    return channel < row and channel < column and x.shape[1] > 1


def stated_format(x: Tensor, channels_last: bool) -> torch.memory_format:
    """The memory format for a result of ``x``; with one channel that stated by its strides, which matters
    only if the result is concatenated.
    """
    if x.shape[1] == 1:
        channels_last = x.stride(1) < min(x.stride(2), x.stride(3))
    return memory_format(channels_last)


def laid_out(x: Tensor, channels_last: bool) -> Tensor:
    """``x`` in a memory format; under ``vmap`` too, where it cannot be named."""
    return x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2) if channels_last else x.contiguous()


def memory_format(channels_last: bool) -> torch.memory_format:
    return torch.channels_last if channels_last else torch.contiguous_format
