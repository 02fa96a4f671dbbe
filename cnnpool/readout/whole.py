"""Readouts that pool all positions of each channel: averages, maxima, and means between them."""

from typing import Literal

import torch
from torch import Tensor

from cnnpool.bounds import AboveZero
from cnnpool.pool.internals import log_of
from cnnpool.pool.scalar import Per, Positive, repeats
from cnnpool.pool.window import wide
from cnnpool.readout.base import Readout, check_maps

Ties = Literal["first", "split"]


class GlobalAvgPool2d(Readout):
    """Mean over all positions: y_c = mean x_c (Lin 2013, Network in Network). Gradient 1/(HW) everywhere.

    Written as a mean, which is deterministic on every device (adaptive average pooling is not on CUDA) and
    accumulates half precision in float32.
    """

    formula = "mean x_i"
    paper = "Lin 2013, arXiv:1312.4400"
    shift = "invariant"

    def __init__(self, channels: int, size: tuple[int, int]):
        super().__init__()
        self.channels = self.out_features = channels

    def flops(self, height: int, width: int) -> int:
        return self.channels * height * width

    def forward(self, x: Tensor) -> Tensor:
        check_maps(self, x)
        return x.mean((2, 3))


class GlobalMaxPool2d(Readout):
    """Maximum over all positions: y_c = max x_c (Oquab 2015).

    The gradient goes to the maximum alone, 1/(HW) of the inputs. NaN comes out as NaN.

    Args:
        ties: which of equal maxima gets the gradient: first in raster order (the rule of torch's
            AdaptiveMaxPool2d), or split evenly (the rule of torch.amax, and of timm's fast pooling).
    """

    formula = "max x_i"
    paper = "Oquab 2015, doi:10.1109/CVPR.2015.7298668"
    shift = "invariant"

    def __init__(self, channels: int, size: tuple[int, int], *, ties: Ties = "first"):
        super().__init__()
        self.channels = self.out_features = channels
        self.ties = ties

    def flops(self, height: int, width: int) -> int:
        return self.channels * (height * width - 1)

    def forward(self, x: Tensor) -> Tensor:
        check_maps(self, x)
        return x.flatten(2).max(2).values if self.ties == "first" else x.amax((2, 3))

    def extra_repr(self) -> str:
        return f"ties={self.ties!r}"


class GlobalAvgMaxPool2d(GlobalMaxPool2d):
    """Mean of average and maximum over all positions: y_c = (mean x_c + max x_c)/2 (Chen 2017, DPN code).

    The gradient is 1/(2HW) everywhere, and 1/2 more at the maximum.

    Args:
        ties: which of equal maxima gets the gradient: first in raster order, or split evenly.
    """

    formula = "(mean x_i + max x_i)/2"
    paper = "Chen 2017, arXiv:1707.01629, its test-time code"

    def flops(self, height: int, width: int) -> int:
        return self.channels * (2 * height * width + 1)

    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * super().forward(x) + 0.5 * x.mean((2, 3))


class GlobalCatAvgMaxPool2d(GlobalMaxPool2d):
    """Average and maximum over all positions, concatenated: y = [mean x, max x] (Howard & Gugger 2020).

    Twice as many features as channels; the classifier weighs the two. The gradient is dense by the average
    and larger at the maximum.

    Args:
        channels: C; the vector has 2C entries, averages first (timm's order; fastai has maxima first).
        ties: which of equal maxima gets the gradient: first in raster order, or split evenly.
    """

    formula = "[mean x_i, max x_i]"
    paper = "Howard & Gugger 2020, arXiv:2002.04688"

    def __init__(self, channels: int, size: tuple[int, int], *, ties: Ties = "first"):
        super().__init__(channels, size, ties=ties)
        self.out_features = 2 * channels

    def flops(self, height: int, width: int) -> int:
        return self.channels * (2 * height * width - 1)

    def forward(self, x: Tensor) -> Tensor:
        peaks = super().forward(x)
        return torch.cat([x.mean((2, 3)), peaks], 1)


class GlobalGeM2d(Readout):
    """Generalised mean over all positions: y_c = (mean max(x_c, eps)^p)^(1/p) (Radenović 2018).

    p = 1 is the average of the positive part, p to infinity the maximum. The gradient is
    (x_i/y)^(p - 1)/(HW) where x_i > eps, and 0 elsewhere: a channel that is nowhere above eps is dead.

    A learnt p is softplus(raw), so it stays above 0. Computed as exp(log(mean exp(p log x))/p), in float32
    at least: neither a large p nor half precision overflows.

    Args:
        p: exponent, > 0, or where it starts when learnable.
        learnable: learn p.
        per: with learnable, one p for the layer or one per channel.
        eps: floor of the activations, > 0.

    Raises:
        ValueError: if p or eps is not finite and above 0.
    """

    formula = "(mean max(x_i, eps)^p)^(1/p)"
    paper = "Radenović 2018, arXiv:1711.02512"
    shift = "invariant"

    def __init__(
        self,
        channels: int,
        size: tuple[int, int],
        *,
        p: AboveZero = 3.0,
        learnable: bool = True,
        per: Per = "layer",
        eps: AboveZero = 1e-6,
    ):
        super().__init__()
        self.channels = self.out_features = channels
        self.fixed_channels = per == "channel"
        self.eps = eps
        self.p = Positive("p", p, repeats(per, channels), learnable=learnable)

    def flops(self, height: int, width: int) -> int:
        return self.channels * (5 * height * width + 3)

    def forward(self, x: Tensor) -> Tensor:
        check_maps(self, x)
        logs = wide(x).clamp(min=self.eps).log()
        # Through logarithms, since torch's pow with a learnt exponent takes more than twice as long.
        return smooth_maximum(logs, self.p(logs)).exp().flatten(1).to(x.dtype)

    def extra_repr(self) -> str:
        return f"eps={self.eps:g}"


class GlobalLogSumExpPool2d(Readout):
    """Smooth maximum over all positions: y_c = log(mean exp(r x_c))/r (Pinheiro 2015).

    r to 0 is the average, r to infinity the maximum. The gradient is softmax(r x): dense, and largest at the
    maximum. A learnt r is softplus(raw), so it stays above 0. Computed in float32 at least, with the maximum
    subtracted: no finite activation overflows.

    Args:
        r: sharpness, > 0, in units of 1/activation, or where it starts when learnable.
        learnable: learn r.
        per: with learnable, one r for the layer or one per channel.

    Raises:
        ValueError: if r is not finite and above 0.
    """

    formula = "log(mean exp(r x_i))/r"
    paper = "Pinheiro 2015, arXiv:1411.6228"
    shift = "invariant"

    def __init__(
        self,
        channels: int,
        size: tuple[int, int],
        *,
        r: AboveZero = 10.0,
        learnable: bool = True,
        per: Per = "layer",
    ):
        super().__init__()
        self.channels = self.out_features = channels
        self.fixed_channels = per == "channel"
        self.r = Positive("r", r, repeats(per, channels), learnable=learnable)

    def flops(self, height: int, width: int) -> int:
        return self.channels * (4 * height * width + 2)

    def forward(self, x: Tensor) -> Tensor:
        check_maps(self, x)
        exact = wide(x)
        return smooth_maximum(exact, self.r(exact)).flatten(1).to(x.dtype)


def smooth_maximum(x: Tensor, r: float | Tensor) -> Tensor:
    """log(mean exp(r x))/r over all positions, (N, C, 1, 1)."""
    # Before the product with r, which may overflow.
    top = x.detach().amax((2, 3), keepdim=True)
    top = torch.where(top.isfinite(), top, 0)
    scaled = r * (x - top)
    mean = scaled.logsumexp((2, 3), keepdim=True) - log_of(x.shape[-2] * x.shape[-1], x)
    # The logarithm of a mean near 1 cancels.
    excess = scaled.expm1().mean((2, 3), keepdim=True)
    is_near = excess.abs() < 0.5
    mean = torch.where(is_near, torch.where(is_near, excess, 0).log1p(), mean)
    return mean / r + top
