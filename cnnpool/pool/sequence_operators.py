"""Operators for sequences, (N, C, L) -> (N, C, L'): those for maps, of windows one row high."""

from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from cnnpool.pool.autograd.winners import Ties
from cnnpool.pool.avg import AvgPool2d
from cnnpool.pool.base import Pool2d, Side, Sides, Tap
from cnnpool.pool.blur import BlurPool2d
from cnnpool.pool.edges import PaddingMode
from cnnpool.pool.lp import LpPool2d
from cnnpool.pool.max import MaxPool2d
from cnnpool.pool.max_blur import MaxBlurPool2d
from cnnpool.pool.sequence import as_map
from cnnpool.pool.window import window_like


class Pool1d(nn.Module):
    """An operator for sequences: (N, C, L) -> (N, C, L').

    Args:
        operator: for maps, of windows one row high.
    """

    def __init__(self, operator: Pool2d):
        super().__init__()
        self.operator = operator

    def output_size(self, length: int) -> int:
        """L' for an input of length L.

        Raises:
            ValueError: if nothing would be left.
        """
        return self.operator.output_size(1, length)[1]

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.operator(as_map(x))
        return y.squeeze(-2)


class MaxPool1d(Pool1d):
    """Largest value of each window of a sequence; options of ``MaxPool2d``, each a single number.

    Example:
        >>> import torch
        >>> from cnnpool.pool import MaxPool1d
        >>> MaxPool1d(3)(torch.rand(1, 3, 8)).shape
        torch.Size([1, 3, 4])
    """

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Side = 2,
        stride: Side = 2,
        padding: Sides = 0,
        dilation: Side = 1,
        ceil_mode: bool = False,
        ties: Ties = "first",
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ):
        window: dict[str, Any] = {
            "kernel_size": (1, kernel_size),
            "stride": (1, stride),
            "padding": (0, padding),
            "dilation": (1, dilation),
        }
        place: dict[str, Any] = {"device": device, "dtype": dtype}
        super().__init__(MaxPool2d(channels, **window, ceil_mode=ceil_mode, ties=ties, **place))

    @classmethod
    def like(cls, module: nn.MaxPool1d, channels: int = 1) -> Self:
        """The operator with the window of torch's ``module``; ``channels`` is C, used by ``flops`` only.

        Raises:
            TypeError: if ``module`` is not a ``torch.nn.MaxPool1d``.
            ValueError: if it returns indices.
        """
        return cls(channels, **window_like(module, nn.MaxPool1d, "dilation", "ceil_mode"))


class AvgPool1d(Pool1d):
    """Mean of each window of a sequence; options of ``AvgPool2d``, each a single number.

    Example:
        >>> import torch
        >>> from cnnpool.pool import AvgPool1d
        >>> AvgPool1d(3)(torch.rand(1, 3, 8)).shape
        torch.Size([1, 3, 4])
    """

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Side = 2,
        stride: Side = 2,
        padding: Sides = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ):
        window: dict[str, Any] = {
            "kernel_size": (1, kernel_size),
            "stride": (1, stride),
            "padding": (0, padding),
        }
        place: dict[str, Any] = {"device": device, "dtype": dtype}
        counting = {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
        super().__init__(AvgPool2d(channels, **window, **counting, **place))

    @classmethod
    def like(cls, module: nn.AvgPool1d, channels: int = 1) -> Self:
        """The operator with the window of torch's ``module``; ``channels`` is C, used by ``flops`` only.

        Raises:
            TypeError: if ``module`` is not a ``torch.nn.AvgPool1d``.
        """
        return cls(channels, **window_like(module, nn.AvgPool1d, "ceil_mode", "count_include_pad"))


class LpPool1d(Pool1d):
    """p-norm or power mean of each window of a sequence; options of ``LpPool2d``, each a single number.

    Example:
        >>> import torch
        >>> from cnnpool.pool import LpPool1d
        >>> LpPool1d(3)(torch.rand(1, 3, 8)).shape
        torch.Size([1, 3, 4])
    """

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Side = 2,
        stride: Side = 2,
        padding: Sides = 0,
        ceil_mode: bool = False,
        p: float = 2.0,
        learnable: bool = False,
        form: Literal["mean", "sum"] = "mean",
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ):
        window: dict[str, Any] = {
            "kernel_size": (1, kernel_size),
            "stride": (1, stride),
            "padding": (0, padding),
            "ceil_mode": ceil_mode,
        }
        place: dict[str, Any] = {"device": device, "dtype": dtype}
        super().__init__(LpPool2d(channels, **window, p=p, learnable=learnable, form=form, **place))

    @classmethod
    def like(cls, module: nn.LPPool1d, channels: int = 1) -> Self:
        """The operator with the window of torch's ``module``; ``channels`` is C, used by ``flops`` only.

        Raises:
            TypeError: if ``module`` is not a ``torch.nn.LPPool1d``.
        """
        window = window_like(module, nn.LPPool1d, "ceil_mode")
        return cls(channels, **window, p=float(module.norm_type), form="sum")


class BlurPool1d(Pool1d):
    """Binomial blur of a sequence, then subsampling; options of ``BlurPool2d``, each a single number.

    Example:
        >>> import torch
        >>> from cnnpool.pool import BlurPool1d
        >>> BlurPool1d(3)(torch.rand(1, 3, 8)).shape
        torch.Size([1, 3, 4])
    """

    def __init__(
        self,
        channels: int,
        *,
        filter_size: Tap = 3,
        stride: Side = 2,
        padding_mode: PaddingMode = "reflect",
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ):
        place: dict[str, Any] = {"device": device, "dtype": dtype, "padding_mode": padding_mode}
        super().__init__(BlurPool2d(channels, filter_size=(1, filter_size), stride=(1, stride), **place))


class MaxBlurPool1d(Pool1d):
    """Dense maximum of a sequence, blur, subsampling; options of ``MaxBlurPool2d``, each a single number.

    Example:
        >>> import torch
        >>> from cnnpool.pool import MaxBlurPool1d
        >>> MaxBlurPool1d(3)(torch.rand(1, 3, 8)).shape
        torch.Size([1, 3, 4])
    """

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Side = 2,
        filter_size: Tap = 3,
        stride: Side = 2,
        padding_mode: PaddingMode = "reflect",
        ties: Ties = "first",
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ):
        sizes: dict[str, Any] = {
            "kernel_size": (1, kernel_size),
            "filter_size": (1, filter_size),
            "stride": (1, stride),
        }
        place: dict[str, Any] = {"device": device, "dtype": dtype}
        super().__init__(MaxBlurPool2d(channels, **sizes, padding_mode=padding_mode, ties=ties, **place))
