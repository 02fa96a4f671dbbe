"""Pooling of sequences, such as audio, (N, C, L) -> (N, C, L'): as maps that are one row high."""

from functools import partial
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from cnnpool.pool.autograd.winners import Ties
from cnnpool.pool.avg import AvgPool2d, avg_pool2d
from cnnpool.pool.base import LikeTorch, Pool2d
from cnnpool.pool.blur import BlurPool2d, blur_pool2d
from cnnpool.pool.edges import PaddingMode
from cnnpool.pool.lp import LpPool2d, lp_pool2d
from cnnpool.pool.max import MaxPool2d, max_pool2d
from cnnpool.pool.max_blur import MaxBlurPool2d, max_blur_pool2d
from cnnpool.registry import options_of

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
    """``max_pool2d`` of sequences, (N, C, L) or (C, L), like ``torch.nn.functional.max_pool1d``.

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
    """``avg_pool2d`` of sequences, (N, C, L) or (C, L), like ``torch.nn.functional.avg_pool1d``.

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


ROWS = {"kernel_size": 1, "filter_size": 1, "stride": 1, "padding": 0, "dilation": 1}
"""Each option that is a size, and its value along an axis that is not pooled."""
RULES = ("ceil_mode", "count_include_pad", "divisor_override")
"""Options of windows that apply to every axis."""


def sizes_and_rules(operator: type[Pool2d], options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of ``operator`` that are sizes, defaults included, and the others that are given."""
    sizes = {name: option.default for name, option in options_of(operator).items() if name in ROWS}
    known = {name: value for name, value in (sizes | options).items() if value is not None}
    rules = {name: value for name, value in known.items() if name not in ROWS}
    return {name: value for name, value in known.items() if name in ROWS}, rules


def _row(length: Length | None, other: int) -> Any:
    """A window of one row; torch also accepts a length as a sequence of one."""
    if length is None or length in ((), []):
        return None
    return (other, length) if not isinstance(length, tuple | list) else (other, *length)


class Pool1d(nn.Module):
    """An operator for sequences: (N, C, L) -> (N, C, L').

    Args:
        operator: an operator for maps; each of its sizes is one number.
        channels: C of the input.
        options: options of ``operator``, ``device`` and ``dtype``.

    Raises:
        ValueError: as in ``operator``.

    Example:
        >>> import torch
        >>> from cnnpool.pool import KaiserPool2d, Pool1d
        >>> Pool1d(KaiserPool2d, 3, filter_size=6)(torch.rand(1, 3, 8)).shape
        torch.Size([1, 3, 4])
    """

    def __init__(self, operator: type[Pool2d], channels: int, **options: Any):
        super().__init__()
        sizes, rules = sizes_and_rules(operator, options)
        rows: dict[str, Any] = {name: (ROWS[name], value) for name, value in sizes.items()}
        self.operator = operator(channels, **rows, **rules)
        # The same attributes as torch's modules have.
        for name in filter(partial(hasattr, self.operator), (*sizes, *RULES)):
            value = getattr(self.operator, name)
            setattr(self, name, value[1:] if name in sizes else value)

    def output_size(self, length: int) -> int:
        """L' for an input of length L.

        Raises:
            ValueError: if the output would be empty.
        """
        return self.operator.output_size(1, length)[1]

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.operator(as_map(x))
        return y.squeeze(-2)


class Named(nn.Module):
    """A mixin before ``Pool1d`` or ``Pool3d``: the class sets the operator, and takes the channels first."""

    operator_class: ClassVar[type[Pool2d]]

    def __init__(self, channels: int, **options: Any):
        super().__init__(self.operator_class, channels, **options)


class MaxPool1d(LikeTorch, Named, Pool1d):
    """Largest value of each window of a sequence; options of ``MaxPool2d``, each a single number.

    Example:
        >>> import torch
        >>> from cnnpool.pool import MaxPool1d
        >>> MaxPool1d(3)(torch.rand(1, 3, 8)).shape
        torch.Size([1, 3, 4])
    """

    torch_module = nn.MaxPool1d
    operator_class = MaxPool2d


class AvgPool1d(LikeTorch, Named, Pool1d):
    """Mean of each window of a sequence; options of ``AvgPool2d``, each a single number.

    Example:
        >>> import torch
        >>> from cnnpool.pool import AvgPool1d
        >>> AvgPool1d(3)(torch.rand(1, 3, 8)).shape
        torch.Size([1, 3, 4])
    """

    torch_module = nn.AvgPool1d
    operator_class = AvgPool2d


class LpPool1d(LikeTorch, Named, Pool1d):
    """p-norm or power mean of each window of a sequence; options of ``LpPool2d``, each a single number.

    Example:
        >>> import torch
        >>> from cnnpool.pool import LpPool1d
        >>> LpPool1d(3)(torch.rand(1, 3, 8)).shape
        torch.Size([1, 3, 4])
    """

    torch_module = nn.LPPool1d
    operator_class = LpPool2d


class BlurPool1d(Named, Pool1d):
    """Binomial blur of a sequence, then subsampling; options of ``BlurPool2d``, each a single number.

    Example:
        >>> import torch
        >>> from cnnpool.pool import BlurPool1d
        >>> BlurPool1d(3)(torch.rand(1, 3, 8)).shape
        torch.Size([1, 3, 4])
    """

    operator_class = BlurPool2d


class MaxBlurPool1d(Named, Pool1d):
    """Dense maximum of a sequence, blur, subsampling; options of ``MaxBlurPool2d``, each a single number.

    Example:
        >>> import torch
        >>> from cnnpool.pool import MaxBlurPool1d
        >>> MaxBlurPool1d(3)(torch.rand(1, 3, 8)).shape
        torch.Size([1, 3, 4])
    """

    operator_class = MaxBlurPool2d
