"""Maxima of windows with the places of the winners, and the checks that all max pooling shares."""

from torch import Tensor

from cnnpool.pool.autograd.routing import Max
from cnnpool.pool.autograd.transforms import apply
from cnnpool.pool.autograd.winners import Ties, indices_of, winners_dtype
from cnnpool.pool.base import Padding, Size
from cnnpool.pool.integers import refuse_quantized
from cnnpool.pool.window import Window, check_map, remembered, window_of


def max_pool2d_with_winners(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Padding = 0,
    dilation: Size = 1,
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
    window = max_window(input.shape, kernel_size, stride, padding, dilation, ceil_mode, ties)
    refuse_quantized(input, "max_pool2d_with_winners")
    return pooled(input, window, ties)


def pooled(x: Tensor, window: Window, ties: Ties) -> tuple[Tensor, Tensor]:
    """Maxima and winners of a map that ``window`` has been checked on."""
    if x.dim() == 4:
        y, winners = apply(Max, x, window, ties)
        return y, winners
    y, winners = apply(Max, x.unsqueeze(0), window, ties)
    return y.squeeze(0), winners.squeeze(0)


def with_indices(x: Tensor, window: Window, ties: Ties) -> tuple[Tensor, Tensor]:
    """Maxima, and the index of each winner in its plane.

    Raises:
        ValueError: if several winners share a window.
    """
    if ties == "split":
        raise ValueError("return_indices names one winner of each window: ties must be first or last")
    y, winners = pooled(x, window, ties)
    return y, indices_of(winners, window, x.shape[-2], x.shape[-1])


@remembered
def max_window(
    shape: tuple[int, ...],
    kernel_size: Size,
    stride: Size | None,
    padding: Padding,
    dilation: Size,
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
