"""Max pooling that saves one small integer per output for backward."""

from typing import Any, Literal, Self, Unpack, overload

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cnnpool.pool.autograd.routing import Max, MaxTiles, packs
from cnnpool.pool.autograd.transforms import apply
from cnnpool.pool.autograd.winners import Ties, indices_of, winners_dtype
from cnnpool.pool.base import IntPair, Padding, Place, Pool2d, Size, both, checked
from cnnpool.pool.dispatch import MAX_OVERLAPPING, MAX_TILES, torch_is_faster
from cnnpool.pool.edges import PaddingMode, pad
from cnnpool.pool.exporting import is_exported
from cnnpool.pool.precision import refuse_quantized
from cnnpool.pool.window import (
    Window,
    cached,
    check_map,
    is_channels_last,
    memory_format,
    window_like,
    window_of,
)


@overload
def max_pool2d(
    input: Tensor,
    kernel_size: IntPair,
    stride: IntPair | None = None,
    padding: IntPair = 0,
    dilation: IntPair = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
    *,
    ties: Ties = "first",
) -> Tensor: ...
@overload
def max_pool2d(
    input: Tensor,
    kernel_size: IntPair,
    stride: IntPair | None = None,
    padding: IntPair = 0,
    dilation: IntPair = 1,
    ceil_mode: bool = False,
    *,
    return_indices: bool,
    ties: Ties = "first",
) -> Any: ...
def max_pool2d(
    input: Tensor,
    kernel_size: IntPair,
    stride: IntPair | None = None,
    padding: IntPair = 0,
    dilation: IntPair = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    ties: Ties = "first",
) -> Tensor | tuple[Tensor, Tensor]:
    """Largest value of each window (Zhou & Chellappa 1988), bit for bit as in ``torch.nn.functional``.

    The backward pass needs one byte per output (two bits for 2x2 tiles with compiled kernels), and neither
    the input nor 8-byte indices. Maps so small that the call itself takes longest go to torch's own kernel.
    NaN wins over everything; padding never wins. Half-precision gradients are summed in float32.

    Args:
        input: (N, C, H, W) or (C, H, W), any real or quantized dtype; indices of a quantized map are refused.
        kernel_size: window, >= 1, or (vertical, horizontal).
        stride: >= 1, or (vertical, horizontal); None for the kernel's size.
        padding: cells around the map, at most half of the kernel.
        dilation: distance between the cells of a window, >= 1.
        ceil_mode: keep the last window although it hangs over the edge.
        return_indices: also return the indices of the maxima, as torch does.
        ties: among equals the gradient goes to the first in row-major order (torch's rule), to the last, or
            is split evenly. Of several NaN the last wins, or all share it.

    Returns:
        (N, C, H', W') or (C, H', W'), H' = floor((H + 2p - d(k-1) - 1)/s) + 1, same dtype as ``input``; with
        ``return_indices`` also int64 of the same shape, row * W + column of each winner in its plane, for
        ``max_unpool2d``.

    Raises:
        ValueError: for a number out of range, an output that would be empty, a window that lies wholly
            in the padding, or indices of tied winners or of a quantized map.

    Example:
        >>> import torch
        >>> from cnnpool.pool import max_pool2d
        >>> x = torch.arange(16.0).view(1, 1, 4, 4)
        >>> max_pool2d(x, 2)
        tensor([[[[ 5.,  7.],
                  [13., 15.]]]])
        >>> y, indices = max_pool2d(x, 2, return_indices=True)
        >>> indices.flatten()
        tensor([ 5,  7, 13, 15])
    """
    if _torch_suffices(input, kernel_size, stride, dilation, ties):
        pool: Any = F.max_pool2d_with_indices if return_indices else torch.max_pool2d
        found: Tensor | tuple[Tensor, Tensor]
        try:
            found = pool(input, kernel_size, () if stride is None else stride, padding, 1, ceil_mode)
            return found
        except (RuntimeError, TypeError, IndexError):
            # Refused below, in our words: to check first would add a tenth to the time of a small map.
            pass
    window = _checked_window(input.shape, kernel_size, stride, padding, dilation, ceil_mode, ties)
    if return_indices:
        return _with_indices(input, window, ties)
    return _maxima(input, window, ties)


def max_pool2d_with_winners(
    input: Tensor,
    kernel_size: IntPair,
    stride: IntPair | None = None,
    padding: IntPair = 0,
    dilation: IntPair = 1,
    ceil_mode: bool = False,
    *,
    ties: Ties = "first",
) -> tuple[Tensor, Tensor]:
    """``max_pool2d``, and the place of each maximum in its window; arguments and errors as there.

    Returns:
        The maxima, and the winners in the same shape: place in the window, row * kernel width + column,
        uint8 up to 256 cells; with ``ties="split"`` the sum of 1 << place over all equals.

    Example:
        >>> import torch
        >>> from cnnpool.pool import max_pool2d_with_winners
        >>> x = torch.tensor([[[[1.0, 5.0], [3.0, 5.0]]]])
        >>> max_pool2d_with_winners(x, 2)
        (tensor([[[[5.]]]]), tensor([[[[1]]]], dtype=torch.uint8))
        >>> max_pool2d_with_winners(x, 2, ties="last")[1]
        tensor([[[[3]]]], dtype=torch.uint8)
    """
    window = _checked_window(input.shape, kernel_size, stride, padding, dilation, ceil_mode, ties)
    refuse_quantized(input, "max_pool2d_with_winners")
    return _with_winners(input, window, ties)


def _torch_suffices(
    x: Tensor, kernel_size: IntPair, stride: IntPair | None, dilation: IntPair, ties: Ties
) -> bool:
    """Whether torch's own operator is right, and faster than a call of ours: on small maps."""
    if ties != "first" or dilation != 1:
        return False
    if stride is None or stride == kernel_size:
        return torch_is_faster(x, MAX_TILES)
    # Of windows that overlap torch rounds gradients in half precision after every addition.
    return (x.dtype.itemsize > 2 or x.is_cuda) and torch_is_faster(x, MAX_OVERLAPPING)


def _maxima(x: Tensor, window: Window, ties: Ties) -> Tensor:
    if not x.is_quantized and x.dim() == 4 and x.dtype in (torch.int8, torch.uint8, torch.int16):
        # torch refuses a channels-last map with more numbers than its integers can count.
        y = torch.max_pool2d(x.contiguous(), *window)
        return y.contiguous(memory_format=memory_format(is_channels_last(x)))
    if not x.is_floating_point() or is_exported():
        return torch.max_pool2d(x, *window)
    if ties == "first" and torch_is_faster(x, MAX_OVERLAPPING):
        # A small map; of windows that overlap torch rounds gradients in half precision after every addition.
        exact = x.float() if window.overlaps else x
        return torch.max_pool2d(exact, *window).to(x.dtype)
    packed = packs(x, window, ties) if x.dim() == 4 else None
    if packed is None:
        return _with_winners(x, window, ties)[0]
    tiles: Tensor = MaxTiles.apply(x, window, packed)
    return tiles


def _with_winners(x: Tensor, window: Window, ties: Ties) -> tuple[Tensor, Tensor]:
    if x.dim() == 4:
        return apply(Max, x, window, ties)
    y, winners = apply(Max, x.unsqueeze(0), window, ties)
    return y.squeeze(0), winners.squeeze(0)


def _with_indices(x: Tensor, window: Window, ties: Ties) -> tuple[Tensor, Tensor]:
    refuse_quantized(x, "return_indices")
    if ties == "split":
        raise ValueError("return_indices names one winner of each window: ties must be first or last")
    y, winners = _with_winners(x, window, ties)
    return y, indices_of(winners, window, x.shape[-2], x.shape[-1])


@cached
def _checked_window(
    shape: tuple[int, ...],
    kernel_size: IntPair,
    stride: IntPair | None,
    padding: IntPair,
    dilation: IntPair,
    ceil_mode: bool,
    ties: Ties,
) -> Window:
    """The checked window of a maximum.

    Raises:
        ValueError: for a number out of range, an empty output, or a window wholly in the padding.
    """
    window = window_of(kernel_size, stride, padding, dilation, ceil_mode)
    if ties not in ("first", "last", "split"):
        raise ValueError(f"ties must be one of first, last, split, got {ties!r}")
    winners_dtype(window, ties)
    check_map(shape, window, "max_pool2d")
    lengths = shape[-2:]
    for length, s, p, d in zip(lengths, window.stride, window.padding, window.dilation, strict=True):
        # A window that starts in the padding first meets the map at start mod d, if the map is that long.
        if length < d and any(start % d >= length for start in range(-p, 0, s)):
            raise ValueError(
                f"a window lies wholly in the padding: {lengths[0]}x{lengths[1]} map, "
                f"kernel_size={window.kernel}, padding={window.padding}, dilation={window.dilation}"
            )
    return window


@checked
class MaxPool2d(Pool2d):
    """Largest value of each window (Zhou & Chellappa 1988; in a CNN: Ranzato 2007), by ``max_pool2d``.

    The gradient of a window goes only to its maximum, 1 at the argmax and 0 elsewhere: with 2x2 windows 3/4
    of the inputs get none. Where windows overlap, an input that wins several gets their sum.

    Edges: padding never wins; rows and columns after the last whole window count only with ``ceil_mode``.

    Args:
        channels: C of the input, not the window as in torch's constructor: ``MaxPool2d(3)`` pools 2x2 windows
            of three channels. ``MaxPool2d.like(nn.MaxPool2d(3))`` pools 3x3 windows.
        kernel_size: window, >= 1, or (vertical, horizontal).
        stride: >= 1, or (vertical, horizontal).
        padding: cells around the map, at most half of the kernel.
        dilation: distance between the cells of a window, >= 1.
        ceil_mode: keep the last window although it hangs over the edge.
        ties: who among equals gets the gradient: first (torch's rule), last, or split evenly.

    Set ``keep_winners`` to True to find the winners of the latest forward pass in ``winners``.

    Raises:
        ValueError: if a number is out of range, the output would be empty, or a window would lie wholly in
            the padding.

    Example:
        >>> import torch
        >>> from cnnpool.pool import MaxPool2d
        >>> MaxPool2d(3, kernel_size=3, stride=2, padding=1)(torch.rand(1, 3, 8, 8)).shape
        torch.Size([1, 3, 4, 4])
        >>> MaxPool2d.like(torch.nn.MaxPool2d(3, 2, 1), ties="split").padding
        (1, 1)
    """

    formula = "max_i x_i"
    paper = "Zhou & Chellappa 1988, ICNN"
    shift = "commutes with shifts by multiples of the stride; the winners move with the pixels in between"
    gradient = "sparse"
    keep_winners: bool = False
    winners: Tensor | None = None

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Size = 2,
        stride: Size = 2,
        padding: Padding = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
        ties: Literal["first", "last", "split"] = "first",
        **place: Unpack[Place],
    ):
        super().__init__(channels, **place)
        window = window_of(kernel_size, stride, padding, dilation, ceil_mode)
        self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode = window
        winners_dtype(window, ties)
        self.ties = ties

    @classmethod
    def like(cls, module: nn.MaxPool2d, channels: int = 1, **options: Any) -> Self:
        """The operator with the window of torch's ``module``.

        Args:
            module: torch's module.
            channels: C of the input, used by ``flops`` only.
            options: of the constructor, such as ``ties``.

        Raises:
            TypeError: if ``module`` is not a ``torch.nn.MaxPool2d``.
            ValueError: if it returns indices.
        """
        return cls(channels, **window_like(module, nn.MaxPool2d, "dilation", "ceil_mode"), **options)

    def flops(self, height: int, width: int) -> int:
        rows, columns = self.output_size(height, width)
        return self.channels * rows * columns * (self.kernel_size[0] * self.kernel_size[1] - 1)

    def forward(self, x: Tensor) -> Tensor:
        window = self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode
        if not self.keep_winners:
            return max_pool2d(x, *window, ties=self.ties)
        y, self.winners = max_pool2d_with_winners(x, *window, ties=self.ties)
        return y


@checked
class EdgeMaxPool2d(MaxPool2d):
    """``MaxPool2d`` of a map's first ``channels`` with a padding mode; ``zeros``, which could win, stands for
    windows cut at the edge. ``padding`` is by default (kernel - 1)//2.
    """

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Size,
        stride: Size,
        padding: Padding | None = None,
        padding_mode: PaddingMode = "zeros",
        **place: Unpack[Place],
    ):
        if padding is None:
            down, across = both(kernel_size)
            padding = (down - 1) // 2, (across - 1) // 2
        super().__init__(channels, kernel_size=kernel_size, stride=stride, padding=padding, **place)
        self.padding_mode = padding_mode

    def forward(self, x: Tensor) -> Tensor:
        if self.padding_mode == "zeros":
            return super().forward(x[..., : self.channels, :, :])
        self.output_size(*x.shape[-2:])
        down, across = self.padding
        # Before channels are left out: of a single one the memory format would be lost.
        padded = pad(x, (across, across, down, down), self.padding_mode)[..., : self.channels, :, :]
        if not self.keep_winners:
            return max_pool2d(padded, self.kernel_size, self.stride, ties=self.ties)
        y, self.winners = max_pool2d_with_winners(padded, self.kernel_size, self.stride, ties=self.ties)
        return y
