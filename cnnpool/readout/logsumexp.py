"""Global log-sum-exp pooling."""

from torch import Tensor

from cnnpool.bounds import AboveZero
from cnnpool.pool.internals import log_of
from cnnpool.pool.scalar import Per, Positive, repeats
from cnnpool.pool.window import wide
from cnnpool.readout.base import Readout


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
        self.r = Positive("r", r, repeats(per, channels), learnable=learnable)

    def flops(self, height: int, width: int) -> int:
        return self.channels * (4 * height * width + 2)

    def forward(self, x: Tensor) -> Tensor:
        exact = wide(x)
        r = self.r(exact)
        total = (r * exact).logsumexp((2, 3), keepdim=True)
        mean: Tensor = (total - log_of(x.shape[-2] * x.shape[-1], exact)) / r
        return mean.flatten(1).to(x.dtype)
