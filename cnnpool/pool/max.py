"""Max pooling that saves one small integer per output for backward."""

from typing import Any, Literal, Self, overload

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cnnpool.pool.autograd.routing import MaxTiles, packs
from cnnpool.pool.autograd.winners import Ties, winners_dtype
from cnnpool.pool.base import Padding, Pool2d, Size
from cnnpool.pool.dispatch import MAX_OVERLAPPING, MAX_TILES, torch_is_faster
from cnnpool.pool.exporting import is_exported
from cnnpool.pool.integers import maxima, refuse_quantized
from cnnpool.pool.max_winners import max_pool2d_with_winners, max_window, pooled, with_indices
from cnnpool.pool.precision import summed_wide
from cnnpool.pool.window import window_like, window_of


@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
    *,
    ties: Ties = "first",
) -> Tensor: ...
@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    *,
    return_indices: bool,
    ties: Ties = "first",
) -> Any: ...
def max_pool2d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    dilation: Size = 1,
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
    tiles = stride is None or stride == kernel_size
    small = ties == "first" and torch_is_faster(input, MAX_TILES if tiles else MAX_OVERLAPPING)
    refused = None
    if small and dilation == 1 and (tiles or input.dtype.itemsize > 2 or input.is_cuda):
        pool: Any = F.max_pool2d_with_indices if return_indices else torch.max_pool2d
        try:
            # torch checks its arguments itself; checking them first would add a tenth to its time.
            found: Tensor | tuple[Tensor, Tensor]
            found = pool(input, kernel_size, () if tiles else stride, padding, 1, ceil_mode)
            return found
        except (RuntimeError, TypeError, IndexError) as error:
            refused = error
    window = max_window(input.shape, kernel_size, stride, padding, dilation, ceil_mode, ties)
    if refused is not None:
        raise refused
    if not input.is_floating_point() and not return_indices:
        return maxima(input, window)
    if return_indices:
        refuse_quantized(input, "return_indices")
        return with_indices(input, window, ties)
    if is_exported():
        return torch.max_pool2d(input, *window)
    if small:
        return summed_wide(torch.max_pool2d, input, window.overlaps, *window)
    packed = packs(input, window, ties) if input.dim() == 4 else None
    if packed is not None:
        y: Tensor = MaxTiles.apply(input, window, packed)
        return y
    return pooled(input, window, ties)[0]


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
    ):
        super().__init__()
        window = window_of(kernel_size, stride, padding, dilation, ceil_mode)
        self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode = window
        winners_dtype(window, ties)
        self.channels = channels
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

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}, ties={self.ties!r}"
        )
