"""Aliasing and spectral artefact free pooling: FrequencyLowCut pooling under a Hamming window."""

import math

from torch import Tensor

from cnnpool.pool.flc import FlcPool2d


class AsapPool2d(FlcPool2d):
    """Keep the central quarter of the Fourier transform under a Hamming window (Grabinski 2023, ASAP).

    The cut of ``flc`` rings; so the frequency (k, l) of a map of (H, W) is first multiplied by sqrt(w(k/H)
    w(l/W)), w(f) = 0.54 + 0.46 cos(2 pi f): 1 at the mean, sqrt(0.54) at the stride 2 cut. The gradient is
    the adjoint, dense.

    Edges: as ``flc``. Departs from the authors' code, which centres the window on the mean for odd H only
    (for even H it peaks half a frequency beside it), keeps the window of the first map's size, and swaps rows
    and columns: here the window is centred and computed for every size, and nothing is swapped.
    """

    formula = "Re inverse Fourier transform of X(f) sqrt(0.54 + 0.46 cos 2 pi f) at -1/(2s) <= f < 1/(2s)"
    paper = "Grabinski 2023, arXiv:2307.09804"

    def gain_of(self, frequency: Tensor) -> Tensor:
        return (0.54 + 0.46 * (2 * math.pi * frequency).cos()).sqrt()
