"""Functions that pool sequences, such as audio, (N, C, L) -> (N, C, L'): those for maps, one row high."""

from typing import Any, Literal

from torch import Tensor

from cnnpool.pool.autograd.winners import Ties
from cnnpool.pool.avg import avg_pool2d
from cnnpool.pool.blur import blur_pool2d
from cnnpool.pool.edges import PaddingMode
from cnnpool.pool.lp import lp_pool2d
from cnnpool.pool.max import max_pool2d
from cnnpool.pool.max_blur import max_blur_pool2d

Length = int | tuple[int] | list[int]


def max_pool1d(
    input: Tensor,
    kernel_size: Length,
    stride: Length | None = None,
    padding: Length = 0,
    dilation: Length = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    ties: Ties = "first",
) -> Any:
    """``max_pool2d`` of sequences, (N, C, L) or (C, L), as ``torch.nn.functional.max_pool1d`` has it.

    Example:
        >>> import torch
        >>> from cnnpool.pool import max_pool1d
        >>> max_pool1d(torch.tensor([[1.0, 3.0, 2.0, 4.0]]), 2)
        tensor([[3., 4.]])
    """
    window = _row(kernel_size, 1), _row(stride, 1), _row(padding, 0), _row(dilation, 1)
    y = max_pool2d(as_map(input), *window, ceil_mode, return_indices=return_indices, ties=ties)
    return (y[0].squeeze(-2), y[1].squeeze(-2)) if return_indices else y.squeeze(-2)


def avg_pool1d(
    input: Tensor,
    kernel_size: Length,
    stride: Length | None = None,
    padding: Length = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """``avg_pool2d`` of sequences, (N, C, L) or (C, L), as ``torch.nn.functional.avg_pool1d`` has it.

    Example:
        >>> import torch
        >>> from cnnpool.pool import avg_pool1d
        >>> avg_pool1d(torch.tensor([[1.0, 3.0, 2.0, 4.0]]), 2)
        tensor([[2., 3.]])
    """
    window = _row(kernel_size, 1), _row(stride, 1), _row(padding, 0)
    return avg_pool2d(as_map(input), *window, ceil_mode, count_include_pad).squeeze(-2)


def lp_pool1d(
    input: Tensor,
    norm_type: float | Tensor,
    kernel_size: Length,
    stride: Length | None = None,
    ceil_mode: bool = False,
    *,
    padding: Length = 0,
    form: Literal["sum", "mean"] = "sum",
) -> Tensor:
    """``lp_pool2d`` of sequences, (N, C, L) or (C, L); arguments as ``torch.nn.functional.lp_pool1d``.

    Example:
        >>> import torch
        >>> from cnnpool.pool import lp_pool1d
        >>> lp_pool1d(torch.tensor([[3.0, 4.0, 0.0, 2.0]]), 2, 2)
        tensor([[5., 2.]])
    """
    window = _row(kernel_size, 1), _row(stride, 1), ceil_mode
    return lp_pool2d(as_map(input), norm_type, *window, padding=_row(padding, 0), form=form).squeeze(-2)


def blur_pool1d(
    x: Tensor, filter_size: int = 3, stride: int = 2, padding_mode: PaddingMode = "reflect"
) -> Tensor:
    """``blur_pool2d`` of sequences, (N, C, L) or (C, L).

    Example:
        >>> import torch
        >>> from cnnpool.pool import blur_pool1d
        >>> blur_pool1d(torch.tensor([[0.0, 0.0, 4.0, 0.0, 0.0]]), stride=1)
        tensor([[0., 1., 2., 1., 0.]])
    """
    return blur_pool2d(as_map(x), (1, filter_size), (1, stride), padding_mode).squeeze(-2)


def max_blur_pool1d(
    x: Tensor,
    kernel_size: int = 2,
    filter_size: int = 3,
    stride: int = 2,
    padding_mode: PaddingMode = "reflect",
    *,
    ties: Ties = "first",
) -> Tensor:
    """``max_blur_pool2d`` of sequences, (N, C, L) or (C, L).

    Example:
        >>> import torch
        >>> from cnnpool.pool import max_blur_pool1d
        >>> max_blur_pool1d(torch.tensor([[0.0, 0.0, 4.0, 0.0, 0.0]]), stride=1)
        tensor([[2., 3., 3., 1., 0.]])
    """
    sizes = (1, kernel_size), (1, filter_size), (1, stride)
    return max_blur_pool2d(as_map(x), *sizes, padding_mode, ties=ties).squeeze(-2)


def as_map(x: Tensor) -> Tensor:
    """Sequences as maps of one row.

    Raises:
        ValueError: unless ``x`` is (N, C, L) or (C, L).
    """
    if x.dim() not in (2, 3):
        raise ValueError(f"pooling of sequences takes (N, C, L) or (C, L), got {tuple(x.shape)}")
    return x.unsqueeze(-2)


def _row(length: Length | None, other: int) -> Any:
    """A window of one row; torch writes a length as a sequence of one, too."""
    if length is None or length in ((), []):
        return None
    return (other, length) if not isinstance(length, tuple | list) else (other, *length)
