"""ASAP against numpy's Fourier transform and scipy's Hamming window."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from cnnpool.pool import AsapPool2d


def naive(x, stride=2):
    """The shifted spectrum under sqrt(w w), its centre transformed back; w as the formula has it, centred."""
    spectrum, cut = np.fft.fftshift(np.fft.fft2(x.numpy(), norm="forward"), (-2, -1)), [...]
    windows = [0.54 + 0.46 * np.cos(2 * np.pi * np.fft.fftshift(np.fft.fftfreq(n))) for n in x.shape[-2:]]
    for length in x.shape[-2:]:
        kept = -(-length // stride)
        cut.append(slice(length // 2 - kept // 2, length // 2 - kept // 2 + kept))
    cropped = (spectrum * np.sqrt(np.outer(*windows)))[tuple(cut)]
    return torch.from_numpy(np.fft.ifft2(np.fft.ifftshift(cropped, (-2, -1)), norm="forward").real)


def test_hand_worked_row_of_four():
    # Mean 4 passes whole; the quarter wave (1, 0, -1, 0), halved by the cut, times sqrt(0.54).
    x = torch.tensor([5.0, 4, 3, 4]).expand(1, 1, 4, 4)
    assert_close(AsapPool2d(1)(x)[0, 0, 0], torch.tensor([4.0, 4]) + torch.tensor([0.5, -0.5]) * 0.54**0.5)


@given(st.tuples(st.integers(1, 16), st.integers(1, 16)), st.integers(1, 4))
@settings(max_examples=60)
def test_every_size_agrees_with_numpy(size, stride):
    x = torch.randn(2, 2, *size, generator=torch.Generator().manual_seed(3)).double()
    assert_close(AsapPool2d(2, stride=stride)(x), naive(x, stride), rtol=1e-10, atol=1e-11)
