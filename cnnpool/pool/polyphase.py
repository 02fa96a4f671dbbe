"""The base class of operators that choose or mix the phases of a map."""

from typing import Unpack

from torch import Tensor

from cnnpool.pool.autograd.phases import complete, sample_phase
from cnnpool.pool.base import CellPool2d, Place, Size, Taps, both, check_batch
from cnnpool.pool.fourier import full_precision
from cnnpool.pool.precision import wide


class PolyphasePool2d(CellPool2d):
    """An operator that chooses one of the s x s phases of a map per sample, or mixes them.

    ``forward(x, phase=None)``: a residual branch must sample the phase of the main path, so a model may call
    ``choose`` once and pass its result to both, or set ``keep_phase`` and find in ``phase`` what the latest
    forward pass sampled, as ``sample_phase`` takes it.
    """

    keep_phase: bool = False
    phase: Tensor | None = None

    def __init__(self, channels: int, stride: Size, filter_size: Taps, **place: Unpack[Place]):
        super().__init__(channels, **place)
        self.stride, self.filter_size = both(stride), both(filter_size)

    def decide(self, x: Tensor) -> Tensor:
        """The phase, as ``sample_phase`` takes it, of a complete map in float32 or float64."""
        raise NotImplementedError

    def choose(self, x: Tensor) -> Tensor:
        """The phase of each sample of ``x``, found in float32 at least, outside autocast too."""
        with full_precision(x):
            return self.decide(complete(wide(x), self.stride))

    def pixels(self, height: int, width: int) -> int:
        """Pixels of the complete map."""
        rows, columns = self.output_size(height, width)
        return rows * self.stride[0] * columns * self.stride[1]

    def forward(self, x: Tensor, phase: Tensor | None = None) -> Tensor:
        check_batch(x, type(self).__name__)
        phase = self.choose(x) if phase is None else phase
        if self.keep_phase:
            self.phase = phase
        return sample_phase(x, phase, self.stride, self.filter_size)
