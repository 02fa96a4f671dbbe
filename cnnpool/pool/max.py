"""Max pooling that saves one small integer per output for backward."""

from typing import Any, Literal, Unpack, overload

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cnnpool.pool.autograd.winners import SMALL_INTEGERS, Ties, indices_of, routed_maxima, winners_dtype
from cnnpool.pool.base import LikeTorch, Padding, Place, Size, WindowPool2d, both, check_choice
from cnnpool.pool.dispatch import MAX_OVERLAPPING, MAX_TILES, torch_suffices
from cnnpool.pool.edges import PaddingMode, pad
from cnnpool.pool.internals import is_exported
from cnnpool.pool.leaves import one_node
from cnnpool.pool.window import (
    IntPair,
    Window,
    cached,
    check_map,
    check_real,
    is_channels_last,
    laid_out,
    refuse_quantized,
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
@one_node
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

    The backward pass needs one byte per output, and neither the input nor 8-byte indices. Maps so small that
    the call dominates the time use torch's own kernel. NaN wins over everything; padding never wins.
    Half-precision gradients are summed in float32.

    Args:
        input: (N, C, H, W) or (C, H, W), floating, int8 to int64 or uint8; quantized ones without indices.
        kernel_size: window, >= 1, or (vertical, horizontal).
        stride: >= 1, or (vertical, horizontal); None for the kernel's size.
        padding: cells around the map, at most half of the kernel; no window may lie wholly in them.
        dilation: distance between the cells of a window, >= 1.
        ceil_mode: keep the last window even if it overhangs the edge.
        return_indices: also return the indices of the maxima, int64 row * W + column in the plane, as torch
            does; refused with ties that are split.
        ties: among equals the gradient goes to the first in row-major order (torch's rule), to the last, or
            is split evenly. Of several NaN the last wins, or all share it.

    Returns:
        (N, C, H', W') or (C, H', W'), H' = floor((H + 2p - d(k-1) - 1)/s) + 1, same dtype as ``input``.

    Example:
        >>> max_pool2d(torch.arange(16.0).view(1, 1, 4, 4), 2)
        tensor([[[[ 5.,  7.],
                  [13., 15.]]]])
    """
    check_real(input, "max_pool2d")
    window = _checked_window(input.shape, kernel_size, stride, padding, dilation, ceil_mode, ties)
    if return_indices:
        refuse_quantized(input, "return_indices")
        if ties == "split":
            raise ValueError("return_indices names one winner of each window: ties must be first or last")
    if _torch_suffices(input, window, ties, return_indices):
        return _by_torch(input, window, return_indices)
    if not return_indices:
        return _with_winners(input, window, ties)[0]
    y, winners = _with_winners(input, window, ties)
    return y, indices_of(winners, window, input.shape[-2], input.shape[-1])


@one_node
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
    """``max_pool2d``, and the place of each maximum in its window.

    The winners are in the shape of the maxima: row * kernel width + column, uint8 up to 256 cells; with
    ``ties="split"`` the sum of 1 << place over all equals.

    Example:
        >>> x = torch.tensor([[[[1.0, 5.0], [3.0, 5.0]]]])
        >>> max_pool2d_with_winners(x, 2)
        (tensor([[[[5.]]]]), tensor([[[[1]]]], dtype=torch.uint8))
    """
    check_real(input, "max_pool2d")
    window = _checked_window(input.shape, kernel_size, stride, padding, dilation, ceil_mode, ties)
    refuse_quantized(input, "max_pool2d_with_winners")
    return _with_winners(input, window, ties)


def _torch_suffices(x: Tensor, window: Window, ties: Ties, return_indices: bool) -> bool:
    """Whether to use torch's operator, as good or the only one: on small maps, for integers, in a graph."""
    if not return_indices and (not x.is_floating_point() or is_exported()):
        return True
    limits = MAX_TILES if window.kernel == window.stride else MAX_OVERLAPPING
    return ties == "first" and torch_suffices(x, limits)


def _by_torch(x: Tensor, window: Window, return_indices: bool) -> Tensor | tuple[Tensor, Tensor]:
    # With overlapping windows torch rounds half-precision gradients after every addition.
    half = x.is_floating_point() and x.dtype.itemsize == 2 and window.overlaps and not is_exported()
    small = x.dtype in SMALL_INTEGERS and x.dim() == 4
    exact = x.float() if half else x.contiguous() if small else x
    if return_indices:
        y, indices = F.max_pool2d_with_indices(exact, *window)
        return y.to(x.dtype), indices
    y = torch.max_pool2d(exact, *window)
    return laid_out(y, is_channels_last(x)) if small else y.to(x.dtype)


def _with_winners(x: Tensor, window: Window, ties: Ties) -> tuple[Tensor, Tensor]:
    if x.dim() == 4:
        return routed_maxima(x, window, ties)
    y, winners = routed_maxima(x.unsqueeze(0), window, ties)
    return y.squeeze(0), winners.squeeze(0)


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
    """The window, or a ValueError also for one that lies wholly in the padding."""
    window = window_of(kernel_size, stride, padding, dilation, ceil_mode)
    check_choice("ties", ties, Ties)
    winners_dtype(window.kernel, ties)
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


class MaxPool2d(LikeTorch, WindowPool2d):
    """Largest value of each window (Zhou & Chellappa 1988; in a CNN: Ranzato 2007), by ``max_pool2d``.

    The gradient of a window goes only to its maximum: with 2x2 windows 3/4 of the inputs get none. Where
    windows overlap, an input that wins several of them gets their sum. With ``keep_winners`` set to True the
    winners of the latest forward pass are in ``winners``.

    Edges: padding never wins; rows and columns after the last whole window count only with ``ceil_mode``.

    Args:
        channels: C of the input, not the window as in torch's constructor, which
            ``MaxPool2d.like(nn.MaxPool2d(3))`` understands.
        dilation: distance between the cells of a window, >= 1.

    Example:
        >>> MaxPool2d.like(torch.nn.MaxPool2d(3, 2, 1), ties="split").padding
        (1, 1)
    """

    formula = "max_i x_i"
    paper = "Zhou & Chellappa 1988, ICNN"
    shift = "equivariant to shifts by multiples of the stride; the winners move with the pixels in between"
    gradient = "sparse"
    torch_module = nn.MaxPool2d
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
        ties: Ties = "first",
        **place: Unpack[Place],
    ):
        super().__init__(channels, kernel_size, stride, padding, ceil_mode, dilation, **place)
        winners_dtype(self.kernel_size, ties)
        self.ties = ties

    def flops(self, height: int, width: int) -> int:
        return self.count_cells(height, width) - self.count_outputs(height, width)

    def forward(self, x: Tensor) -> Tensor:
        return self._pool(x, self.padding)

    def _pool(self, x: Tensor, padding: tuple[int, int]) -> Tensor:
        window = self.kernel_size, self.stride, padding, self.dilation, self.ceil_mode
        if not self.keep_winners:
            return max_pool2d(x, *window, ties=self.ties)
        y, self.winners = max_pool2d_with_winners(x, *window, ties=self.ties)
        return y


class EdgeMaxPool2d(MaxPool2d):
    """``MaxPool2d`` of a map's first ``channels`` with a padding mode; ``zeros`` only cuts windows off at the
    edge, because zeros could win. ``padding`` defaults to (kernel - 1)//2.
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
        # Padded before channels are dropped: a single one would lose the memory format.
        padded = pad(x, (across, across, down, down), self.padding_mode)
        return self._pool(padded[..., : self.channels, :, :], (0, 0))
