"""Generalised-mean pooling."""

from torch import Tensor

from cnnpool.bounds import AboveZero
from cnnpool.pool.internals import log_of
from cnnpool.pool.scalar import Per, Positive, repeats
from cnnpool.pool.window import wide
from cnnpool.readout.base import Readout


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
        self.eps = eps
        self.p = Positive("p", p, repeats(per, channels), learnable=learnable)

    def flops(self, height: int, width: int) -> int:
        return self.channels * (5 * height * width + 3)

    def forward(self, x: Tensor) -> Tensor:
        logs = wide(x).clamp(min=self.eps).log()
        p = self.p(logs)
        # Through logarithms, since torch's pow with a learnt exponent takes more than twice as long.
        mean = (p * logs).logsumexp((2, 3), keepdim=True) - log_of(x.shape[-2] * x.shape[-1], logs)
        result: Tensor = (mean / p).exp().flatten(1).to(x.dtype)
        return result

    def extra_repr(self) -> str:
        return f"eps={self.eps:g}"
