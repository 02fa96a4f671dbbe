"""Mixed max-average pooling: :func:`mixed_pool2d`."""

from typing import Unpack

from torch import Tensor

from cnnpool.bounds import Share
from cnnpool.pool.avg import avg_pool2d
from cnnpool.pool.base import Padding, Place, Size, WindowPool2d, checked
from cnnpool.pool.max import max_pool2d
from cnnpool.pool.scalar import Fraction, Per, repeats
from cnnpool.pool.window import IntPair, Window, wide, window_on


def max_and_average(x: Tensor, window: Window) -> tuple[Tensor, Tensor]:
    """Maximum (first of equal cells) and average over the cells inside the map, in the type of ``x``."""
    average = avg_pool2d(x, *window[:3], window.ceil_mode, count_include_pad=False)
    return max_pool2d(x, *window), average


def mixed_pool2d(
    x: Tensor,
    kernel_size: IntPair,
    stride: IntPair | None = None,
    padding: IntPair = 0,
    ceil_mode: bool = False,
    *,
    mix: float | Tensor = 0.5,
) -> Tensor:
    """mix * max + (1 - mix) * average of every window (Lee 2016, arXiv:1509.08985).

    Maps, windows and errors as in ``avg_pool2d``; cells outside the map take no part, and half precision is
    summed in float32.

    Args:
        mix: share of max, in [0, 1], or a tensor that fits (N, C, H', W').

    Example:
        >>> x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
        >>> mixed_pool2d(x, 2), mixed_pool2d(x, 2, mix=0.8)
        (tensor([[[[3.2500]]]]), tensor([[[[3.7000]]]]))
    """
    if not isinstance(mix, Tensor) and not 0 <= mix <= 1:
        raise ValueError(f"mix must be in [0, 1], got {mix}")
    window = window_on(x, kernel_size, stride, padding, ceil_mode)
    largest, average = max_and_average(wide(x), window)
    return (mix * largest + (1 - mix) * average).to(x.dtype)


@checked
class MixedPool2d(WindowPool2d):
    """y = a max(x) + (1 - a) mean(x) with learnt a (Lee 2016, arXiv:1509.08985, "mixed").

    A learnt a is sigmoid(raw), so it stays in (0, 1); the paper leaves it free. Gradient: (1 - a)/n to every
    cell, and a more to the first maximum.

    Edges: torch's size formula; cells in the padding or the overhang take no part.

    Args:
        mix: share of max, in [0, 1], or where it starts when learnable.
    """

    formula = "a max_i x_i + (1 - a) mean_i x_i"
    paper = "Lee 2016, arXiv:1509.08985"
    shift = "commutes with shifts by multiples of the stride; between max and average"
    gradient = "dense"
    cell_flops = 2

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Size = 2,
        stride: Size = 2,
        padding: Padding = 0,
        ceil_mode: bool = False,
        mix: Share = 0.5,
        learnable: bool = True,
        per: Per = "layer",
        **place: Unpack[Place],
    ):
        super().__init__(channels, kernel_size, stride, padding, ceil_mode, **place)
        self.fixed_channels = per == "channel"
        self.mix = Fraction("mix", mix, (repeats(per, channels), 1, 1), learnable=learnable, **place)

    def forward(self, x: Tensor) -> Tensor:
        self.check_channels(x)
        return mixed_pool2d(x, *self.window, mix=self.mix(wide(x)))
