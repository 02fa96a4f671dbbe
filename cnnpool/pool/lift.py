"""A learnt wavelet by lifting, the sum of its bands, and its inverse."""

from collections.abc import Sequence
from typing import Literal, Unpack

import torch
from torch import Tensor, nn

from cnnpool.pool.base import CellPool2d, OddTap, Place
from cnnpool.pool.edges import EdgeConv2d, PaddingMode
from cnnpool.pool.fourier import like
from cnnpool.pool.window import ceil_div

ROWS, COLUMNS = -2, -1


class Lifting(nn.Module):
    """One step of lifting along an axis: (samples) -> (approximation, detail), and back (Sweldens 1998).

    d = x_odd - P(x_even); s = x_even + U(d). The inverse undoes both in turn, whatever P and U are:
    x_even = s - U(d); x_odd = d + P(x_even).
    """

    def __init__(self, predict: nn.Module, update: nn.Module, axis: int):
        super().__init__()
        self.predict, self.update, self.axis = predict, update, axis

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        length = x.shape[self.axis]
        pairs = ceil_div(length, 2)
        # An odd length repeats its last sample.
        places = torch.arange(2 * pairs, device=x.device).clamp(max=length - 1)
        whole = x.index_select(self.axis, places).unflatten(self.axis, (pairs, 2))
        even, odd = (like(part, x) for part in whole.unbind(self.axis))
        detail = odd - self.predict(even)
        return even + self.update(detail), detail

    def inverse(self, approximation: Tensor, detail: Tensor) -> Tensor:
        """The samples of an approximation and a detail, of even length."""
        even = approximation - self.update(detail)
        odd = detail + self.predict(even)
        return like(torch.stack([even, odd], self.axis).flatten(self.axis - 1, self.axis), approximation)


class Half(nn.Module):
    """Haar's update, U(d) = d/2."""

    def forward(self, x: Tensor) -> Tensor:
        return x / 2


class LiftPool2d(CellPool2d):
    """Split, predict, update along both axes, then the sum of the four bands (Zhao 2021, LiftDownPool).

    Along an axis the odd samples are predicted from the even ones, d = x_odd - P(x_even), and the even ones
    updated by the residual, s = x_even + U(d), with P and U learnt: tanh(conv1(relu(conv_k))) of the
    channel's own samples. Columns, then rows, give the bands LL, LH, HL and HH; the output is their sum, as
    in the paper, or LL alone. Nothing is lost before the sum: ``inverse`` of ``bands`` restores the map up to
    rounding (LiftUpPool). The gradient reaches every input.

    ``lifting=haar`` fixes P(x) = x and U(d) = d/2: LL is then the average of 2 x 2 pixels. Departs from the
    paper: its loss has two more terms, which keep the bands near the samples; a training loop can add them
    with ``bands``. P and U are shared by the bands of an axis.

    Edges: H' = ceil(H/2), an odd size repeats its last row or column; the convolutions of P and U see the
    samples padded by ``padding_mode``. Circular makes the operator commute exactly with circular shifts by 2.

    Args:
        kernel_size: taps of P and U, odd, along the axis.
        stride: 2, that of the transform.
        lifting: learnt or haar.
        bands: sum or ll.

    Example:
        >>> pool, x = LiftPool2d(3), torch.rand(1, 3, 8, 8)
        >>> torch.allclose(pool.inverse(pool.bands(x)), x, atol=1e-6)
        True
    """

    formula = "s_s + d_s + s_d + d_d, where d = x_odd - P(x_even), s = x_even + U(d) along each axis"
    paper = "Zhao 2021, arXiv:2104.00996"
    shift = "commutes with shifts by multiples of the stride; odd and even pixels are treated differently"
    gradient = "dense"
    gain: float | None = None

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: OddTap = 3,
        stride: Literal[2] = 2,
        lifting: Literal["learnt", "haar"] = "learnt",
        bands: Literal["sum", "ll"] = "sum",
        padding_mode: PaddingMode = "reflect",
        **place: Unpack[Place],
    ):
        super().__init__(channels, stride=stride, **place)
        self.lifting, self.taken = lifting, bands
        self.taps = kernel_size
        self.fixed_channels = lifting == "learnt"
        if lifting == "haar":
            # The details of a constant are zero, and its approximation is the constant.
            self.gain = 1.0
            self.columns = Lifting(nn.Identity(), Half(), COLUMNS)
            self.rows = Lifting(nn.Identity(), Half(), ROWS)
        else:
            self.columns = _learnt(channels, (1, kernel_size), COLUMNS, padding_mode, place)
            self.rows = _learnt(channels, (kernel_size, 1), ROWS, padding_mode, place)

    def flops(self, height: int, width: int) -> int:
        rows, columns = self.output_size(height, width)
        # P and U: k multiplications and additions, bias, ReLU, one more of each, tanh; Haar's: one half each.
        net = 1 if self.lifting == "haar" else 2 * (2 * self.taps + 4)
        lifted = height * columns * (net + 2) + 2 * rows * columns * (net + 2)
        return self.channels * (lifted + (3 * rows * columns if self.taken == "sum" else 0))

    def bands(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """LL, LH, HL and HH of ``x``, each (N, C, ceil(H/2), ceil(W/2)); the first letter is the columns'."""
        self.check_batch(x)
        low, high = self.columns(x)
        return (*self.rows(low), *self.rows(high))

    def inverse(self, bands: Sequence[Tensor]) -> Tensor:
        """The map (N, C, 2 H', 2 W') of four bands of one shape, in the order of ``bands`` (LiftUpPool)."""
        if len(bands) != 4 or len({band.shape for band in bands}) != 1:
            raise ValueError(
                f"bands must be four maps of one shape, got {[tuple(band.shape) for band in bands]}"
            )
        low = self.rows.inverse(bands[0], bands[1])
        high = self.rows.inverse(bands[2], bands[3])
        return self.columns.inverse(low, high)

    def forward(self, x: Tensor) -> Tensor:
        self.check_batch(x)
        if self.taken == "ll":
            low = self.columns(x)[0]
            y: Tensor = self.rows(low)[0]
            return like(y, x)
        first, *others = self.bands(x)
        return like(sum(others, first), x)


def _learnt(channels: int, kernel: tuple[int, int], axis: int, mode: PaddingMode, place: Place) -> Lifting:
    predict, update = (
        nn.Sequential(
            EdgeConv2d(channels, channels, kernel, mode=mode, groups=channels, **place),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 1, groups=channels, **place),
            nn.Tanh(),
        )
        for _ in range(2)
    )
    return Lifting(predict, update, axis)
