"""Power means of windows: :func:`lp_pool2d` and :func:`gem_pool2d`."""

import math
from typing import Annotated, Any, Literal, Unpack

import torch
from annotated_types import Ge, Gt, Lt
from torch import Tensor, nn

from cnnpool.bounds import AboveZero
from cnnpool.pool.autograd.replayed import FLOORED, POWER, SIGNED, Mean, evaluate
from cnnpool.pool.base import Cells, LikeTorch, Padding, Place, Size, WindowPool2d, check_choice
from cnnpool.pool.cells import added, cells, count, peak
from cnnpool.pool.dispatch import may_be_negative
from cnnpool.pool.leaves import one_node
from cnnpool.pool.max import max_pool2d
from cnnpool.pool.scalar import Per, Positive, repeats
from cnnpool.pool.window import IntPair, is_channels_last, laid_out, wide, window_on

Power = Annotated[float, Gt(0)]
"""The power p; infinity gives the maximum."""
LEAST = 0.01  # Power of gem: in float32 smaller ones make its root inexact
GemPower = Annotated[float, Ge(LEAST), Lt(math.inf)]
Form = Literal["sum", "mean"]
MOST_SPLIT = 63  # Cells of a window whose ties a maximum can split by bits


@one_node
def lp_pool2d(
    input: Tensor,
    norm_type: float | Tensor,
    kernel_size: IntPair,
    stride: IntPair | None = None,
    ceil_mode: bool = False,
    *,
    padding: IntPair = 0,
    form: Form = "sum",
) -> Tensor:
    """The p-norm of every window, (sum |x_i|^p)^(1/p), or with ``form="mean"`` (mean |x_i|^p)^(1/p).

    ``form="sum"`` with a plain p is ``torch.nn.functional.lp_pool2d``, which takes powers of x itself: an odd
    p of negative values too, and NaN where a root or a power is not real. But torch scales the sum of a
    window that overhangs. The window's largest |x| is divided out first, so no power overflows. The gradient
    is 0 at x_i = 0 and in an all-zero window; an infinite cell makes its window infinite, without gradient
    where p is finite.

    Args:
        norm_type: p > 0; infinity is max |x_i|, ties sharing the gradient; or a tensor that fits (C, 1, 1).
        form: sum (torch) or mean (a constant map keeps its value).

    Example:
        >>> x = torch.tensor([[[[0.0, 0.0], [3.0, -4.0]]]])
        >>> lp_pool2d(x, 2, 2), lp_pool2d(x, 2, 2, form="mean")
        (tensor([[[[5.]]]]), tensor([[[[2.5000]]]]))
    """
    window = window_on(input, kernel_size, stride, padding, ceil_mode)
    check_choice("form", form, Form)
    if not isinstance(norm_type, Tensor) and not norm_type > 0:
        raise ValueError(f"norm_type must be above 0, got {norm_type}")
    if not isinstance(norm_type, Tensor) and norm_type == math.inf:
        size = wide(input).abs()
        if window.cells > MOST_SPLIT:
            y = torch.stack(cells(size, window)).amax(0)
            return laid_out(y, y.dim() == 4 and is_channels_last(input)).to(input.dtype)
        return max_pool2d(size, *window, ties="split").to(input.dtype)
    plain = form == "sum" and not isinstance(norm_type, Tensor)
    if plain and norm_type == 3:
        return evaluate(signed_sum, input, norm_type, Mean(SIGNED, window, mean=False))
    if plain and norm_type % 2 != 0 and may_be_negative(input):
        if norm_type % 2 == 1:
            return signed_sum(input, norm_type, Mean(SIGNED, window, mean=False))
        input = torch.where(input < 0, math.nan, input)
    return evaluate(power_mean, input, norm_type, Mean(POWER, window, mean=form == "mean"))


def signed_sum(x: Tensor, p: float | Tensor, how: Mean) -> Tensor:
    """(sum x^p)^(1/p) in every window, p odd, by torch's operators."""
    parts, largest = cells(wide(x), how.window), peak(wide(x).abs(), how.window)
    endless = largest.isinf()
    scale = torch.where((largest == 0) | endless, 1.0, largest)
    total = added((torch.where(endless, 0.0, part) / scale).pow(p) for part in parts)
    # The root has an infinite slope at zero: take the root of 1 there, and return 0.
    empty = total == 0
    root = torch.where(empty, 0.0, torch.where(empty, 1.0, total).pow(1 / p) * scale)
    # As torch has it: infinite, and NaN where infinities of both signs meet.
    ends = added(torch.where(part.isinf(), part, 0.0) for part in parts).detach().abs()
    return torch.where(endless, ends, root).to(x.dtype)


def power_mean(x: Tensor, p: float | Tensor, how: Mean) -> Tensor:
    """(sum or mean u^p)^(1/p) in every window by torch's operators, of u = |x| or max(x, ``how.floor``)."""
    exact = wide(x)
    # clamp would stop the gradient of NaN.
    size = exact.abs() if how.kind == POWER else torch.where(exact < how.floor, how.floor, exact)
    parts, largest = cells(size, how.window), peak(size, how.window)
    endless = largest.isinf()
    scale = torch.where((largest == 0) | endless, 1.0, largest)
    total = added(_power(torch.where(endless, 0.0, part) / scale, p) for part in parts)
    if how.mean:
        total = total / count(size, how.window)
    # The root has an infinite slope at zero: take the root of 1 there, and return 0.
    empty = total == 0
    root = torch.where(empty, 1.0, total).pow(1 / p)
    return torch.where(endless, largest, torch.where(empty, 0.0, root * scale)).to(x.dtype)


def _power(base: Tensor, exponent: float | Tensor) -> Tensor:
    if not isinstance(exponent, Tensor) and exponent >= 1:
        return base.pow(exponent)
    zero = base == 0
    return torch.where(zero, 0.0, torch.where(zero, 1.0, base).pow(exponent))


class LpPool2d(LikeTorch, WindowPool2d):
    """y = (mean |x_i|^p)^(1/p): p = 1 averages |x|, large p nears max |x| (Gulcehre 2014, arXiv:1311.1780).

    The default is the mean, so that a map keeps its scale; ``form: sum`` is torch's LPPool2d (Sermanet 2012),
    which multiplies a constant map by n^(1/p) and, unless p is learnt, takes powers of x itself. A learnt p
    is 1 + softplus(raw), so it stays above 1, as in the paper. Gradient: sgn(x_i) |x_i|^(p-1) y^(1-p) / n,
    and 0 in an all-zero window.

    Args:
        p: power, > 0 (inf for max |x|), or where it starts when learnable, > 1 and finite.
        form: mean or sum.
    """

    formula = "(mean_i |x_i|^p)^(1/p)"
    paper = "Gulcehre 2014, arXiv:1311.1780"
    shift = "equivariant to shifts by multiples of the stride; larger p aliases more, like max"
    gradient = "dense"
    cell_flops = 4
    torch_module = nn.LPPool2d

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Cells = 2,
        stride: Size = 2,
        padding: Padding = 0,
        ceil_mode: bool = False,
        p: Power = 2.0,
        learnable: bool = False,
        per: Per = "layer",
        form: Literal["mean", "sum"] = "mean",
        **place: Unpack[Place],
    ):
        super().__init__(channels, kernel_size, stride, padding, ceil_mode, per=per, **place)
        if form == "sum":
            self.gain = None
        self.form = form
        self.p = None
        if p != math.inf or learnable:
            above, copies = float(learnable), repeats(per, channels)
            self.p = Positive("p", p, copies, learnable=learnable, above=above, **place)

    @classmethod
    def options_like(cls, module: Any) -> dict[str, Any]:
        return super().options_like(module) | {"p": float(module.norm_type), "form": "sum"}

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        p = math.inf if self.p is None else self.p(wide(x))
        kernel_size, stride, padding, ceil_mode = self.window
        return lp_pool2d(x, p, kernel_size, stride, ceil_mode, padding=padding, form=self.form)


@one_node
def gem_pool2d(
    x: Tensor,
    kernel_size: IntPair,
    stride: IntPair | None = None,
    padding: IntPair = 0,
    ceil_mode: bool = False,
    *,
    p: float | Tensor = 3.0,
    eps: float = 1e-6,
) -> Tensor:
    """The generalised mean of every window, (mean max(x_i, eps)^p)^(1/p) (Radenović 2018, arXiv:1711.02512).

    Args:
        p: power, >= 0.01, or a tensor that fits (C, 1, 1).
        eps: floor of x, > 0. Below it a cell has no gradient, and a window entirely below gives eps.

    Example:
        >>> x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> gem_pool2d(x, 2, p=1), gem_pool2d(x, 2, p=3)
        (tensor([[[[2.5000]]]]), tensor([[[[2.9240]]]]))
    """
    if not eps > 0:
        raise ValueError(f"eps must be above 0, got {eps}")
    if not isinstance(p, Tensor) and not p >= LEAST:
        raise ValueError(f"p must be at least {LEAST}, got {p}: the root of smaller powers is inexact")
    window = window_on(x, kernel_size, stride, padding, ceil_mode)
    return evaluate(power_mean, x, p, Mean(FLOORED, window, eps))


class GemPool2d(WindowPool2d):
    """y = (mean max(x_i, eps)^p)^(1/p): p = 1 averages, large p nears max (Radenović 2018, arXiv:1711.02512).

    The paper pools the whole map; here the same mean is taken in every window. A learnt p is softplus(raw),
    so it stays above 0. Gradient: x_i^(p-1) y^(1-p) / n where x_i > eps, else 0: a window without a positive
    cell is dead.

    Args:
        p: power, >= 0.01, or where it starts when learnable.
        eps: floor of x, > 0.
    """

    formula = "(mean_i max(x_i, eps)^p)^(1/p)"
    paper = "Radenović 2018, arXiv:1711.02512"
    shift = "equivariant to shifts by multiples of the stride; larger p aliases more, like max"
    gradient = "dense"
    cell_flops = 4

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Cells = 2,
        stride: Size = 2,
        padding: Padding = 0,
        ceil_mode: bool = False,
        p: GemPower = 3.0,
        learnable: bool = True,
        per: Per = "layer",
        eps: AboveZero = 1e-6,
        **place: Unpack[Place],
    ):
        super().__init__(channels, kernel_size, stride, padding, ceil_mode, per=per, **place)
        self.eps = eps
        self.p = Positive("p", p, repeats(per, channels), learnable=learnable, **place)

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        return gem_pool2d(x, *self.window, p=self.p(wide(x)), eps=self.eps)
