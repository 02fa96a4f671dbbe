"""FrequencyLowCut pooling: the central quarter of the spectrum, transformed back."""

from torch import Tensor

from cnnpool.pool.base import Pool2d, Size, pair
from cnnpool.pool.fourier import check_map, keep_centre, transform_flops


class FlcPool2d(Pool2d):
    """Keep the central quarter of the Fourier transform (Grabinski 2022, FrequencyLowCut pooling).

    Along an axis of M outputs the frequencies -floor(M/2) ... ceil(M/2) - 1 are kept. For even M the lowest
    has no partner, so that the inverse transform is complex; as in the authors' code its real part is the
    output (``spectral`` differs in the one frequency that is unpaired along both axes). The gradient is the
    adjoint, dense.

    Edges: the map counts as periodic, so opposite edges meet. H' = ceil(H/s). Departs from the authors' code
    where H is even and H/2 odd, or H = 4n + 1: it cuts beside the centre of the former, so that a constant
    map comes out as a cosine, and rounds H/2 down for the latter. Departs from the paper by any stride but 2.

    Args:
        channels: C of the input.
        stride: pixels per output pixel, >= 1, or (vertical, horizontal).

    Raises:
        ValueError: if stride is below 1.
    """

    formula = "Re inverse Fourier transform of X(f) at -1/(2s) <= f < 1/(2s)"
    paper = "Grabinski 2022, arXiv:2204.00491"
    shift = "commutes with shifts by multiples of the stride; aliases at the new Nyquist frequency alone"
    gradient = "dense"

    def __init__(self, channels: int, *, stride: Size = 2):
        super().__init__()
        self.channels = channels
        self.stride = pair(stride, "stride", least=1)

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        return -(-height // self.stride[0]), -(-width // self.stride[1])

    def flops(self, height: int, width: int) -> int:
        rows, columns = self.output_size(height, width)
        there = height * transform_flops(width) + width * transform_flops(height)
        back = rows * transform_flops(columns) + columns * transform_flops(rows)
        # Complex transforms do the work of two real ones.
        return self.channels * 2 * (there + back)

    def forward(self, x: Tensor) -> Tensor:
        check_map(x, type(self).__name__)
        return keep_centre(x, self.output_size(*x.shape[-2:]))

    def extra_repr(self) -> str:
        return f"stride={self.stride}"
