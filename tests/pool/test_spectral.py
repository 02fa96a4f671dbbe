"""Spectral pooling against scipy.signal.resample and numpy's Fourier transform."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import resample
from torch.testing import assert_close

from cnnpool.pool import SpectralPool2d, spectral_pool2d

SIZES = st.tuples(st.integers(1, 16), st.integers(1, 16))


def naive(x, size, nyquist):
    """Symmetrised crop of numpy's transform: the pair +-M/2 of an even M meets in one frequency."""
    spectrum = np.fft.fft2(x.numpy(), norm="forward")
    for axis, (length, kept) in zip((-2, -1), zip(x.shape[-2:], size, strict=True), strict=True):
        number = np.fft.fftfreq(length, 1 / length).round().astype(int)
        wanted = np.fft.fftfreq(kept, 1 / kept).round().astype(int)
        picked = np.stack([spectrum.take(np.where(number == k)[0][0], axis) for k in wanted], axis)
        if kept % 2 == 0 and kept < length:
            pair = [spectrum.take(np.where(number == k)[0][0], axis) for k in (kept // 2, -(kept // 2))]
            both = {"mean": 0.5, "sum": 1, "zero": 0}[nyquist] * (pair[0] + pair[1])
            picked[(..., kept // 2, slice(None)) if axis == -2 else (..., kept // 2)] = both
        spectrum = picked
    out = np.fft.ifft2(spectrum, norm="forward")
    assert np.abs(out.imag).max() < 1e-12
    return torch.from_numpy(out.real)


def test_hand_worked_4x4():
    # Of (1, 0, -1, 0), a wave of frequency 1/4, half is kept: cos(pi n)/2 on the new grid.
    line = torch.tensor([5.0, 4, 3, 4])
    out = SpectralPool2d(1)(line.expand(1, 1, 4, 4))
    assert_close(out, torch.tensor([4.5, 3.5]).expand(1, 1, 2, 2))


@given(SIZES, st.data())
@settings(max_examples=80)
def test_every_size_agrees_with_numpy(size, data):
    kept = tuple(data.draw(st.integers(1, n)) for n in size)
    nyquist = data.draw(st.sampled_from(["mean", "sum", "zero"]))
    x = torch.randn(
        2, 2, *size, generator=torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    ).double()
    assert_close(spectral_pool2d(x, kept, nyquist=nyquist), naive(x, kept, nyquist), rtol=1e-10, atol=1e-11)


@given(SIZES, st.data())
@settings(max_examples=50)
def test_scipy_resamples_the_same_at_odd_sizes_and_sums_at_even_ones(size, data):
    kept = tuple(data.draw(st.integers(1, n)) for n in size)
    x = torch.randn(1, 2, *size, generator=torch.Generator().manual_seed(1)).double()
    theirs = torch.from_numpy(resample(resample(x.numpy(), kept[0], axis=2), kept[1], axis=3))
    assert_close(spectral_pool2d(x, kept, nyquist="sum"), theirs, rtol=1e-10, atol=1e-11)
    if kept[0] % 2 and kept[1] % 2:
        assert_close(spectral_pool2d(x, kept), theirs, rtol=1e-10, atol=1e-11)
