"""A dense maximum, then adaptive polyphase sampling."""

from typing import Unpack

from torch import Tensor

from cnnpool.pool.aps import ApsPool2d, Choose, Order
from cnnpool.pool.autograd.winners import Ties
from cnnpool.pool.base import Place, Size, Taps, both, checked
from cnnpool.pool.edges import pad
from cnnpool.pool.max import MaxPool2d


@checked
class MaxApsPool2d(ApsPool2d):
    """Dense maximum, then the phase of largest norm among its s x s phases, as APS was published.

    Chaman & Dokmanic (2021) put APS in place of the subsampling of a max pooling; ``aps`` subsamples the map
    itself. The window wraps around, so that circular shifts of the input shift the output exactly. The
    gradient goes to the winners of the chosen phase (with a blur, of its neighbours too).

    Edges: as ``aps``. A window reaches to the right and to the bottom.

    Args:
        kernel_size: window of the maximum, >= 1, or (vertical, horizontal).
    """

    formula = "y_k, k = argmax_k ||y_k||_p over the s x s phases y_k of the dense maximum"
    paper = "Chaman & Dokmanic 2021, arXiv:2011.14214"
    shift = "commutes with every circular shift, up to a shift of the output"
    gradient = "sparse"

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: Size = 2,
        stride: Size = 2,
        p: Order = 2.0,
        choose: Choose = "max",
        filter_size: Taps = 1,
        ties: Ties = "first",
        **place: Unpack[Place],
    ):
        super().__init__(channels, stride=stride, p=p, choose=choose, filter_size=filter_size, **place)
        self.max = MaxPool2d(channels, kernel_size=both(kernel_size), stride=1, padding=0, ties=ties)

    def choose(self, x: Tensor) -> Tensor:
        return super().choose(self._dense(x))

    def forward(self, x: Tensor, phase: Tensor | None = None) -> Tensor:
        dense = self._dense(x)
        return super().forward(dense, super().choose(dense) if phase is None else phase)

    def _dense(self, x: Tensor) -> Tensor:
        down, across = self.max.kernel_size
        y: Tensor = self.max(pad(x, (0, across - 1, 0, down - 1), "circular"))
        return y

    def flops(self, height: int, width: int) -> int:
        down, across = self.max.kernel_size
        return self.max.flops(height + down - 1, width + across - 1) + super().flops(height, width)
