"""The ideal low-pass filter against numpy's Fourier transform and against waves it must keep or remove."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from cnnpool.pool import IdealLowpassPool2d, ideal_lowpass_pool2d


def naive(x, stride):
    """Zero every |f| >= 1/(2s), transform back, keep every s-th pixel."""
    spectrum = np.fft.fft2(x.numpy())
    keep = [np.abs(np.fft.fftfreq(n)) < 1 / (2 * s) for n, s in zip(x.shape[-2:], stride, strict=True)]
    smooth = np.fft.ifft2(spectrum * np.outer(*keep))
    assert np.abs(smooth.imag).max() < 1e-12 * max(1, np.abs(smooth).max())
    return torch.from_numpy(smooth.real[..., :: stride[0], :: stride[1]].copy())


def wave(length, frequency, phase=0.0):
    """A cosine along the columns of a square map."""
    line = torch.cos(2 * math.pi * frequency * torch.arange(length).double() / length + phase)
    return line.expand(1, 1, length, length)


def test_hand_worked_4x4_keeps_the_mean_alone():
    # Frequencies 0, 1/4 and 1/2 cycles per pixel: at stride 2 only the first is below 1/4.
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    assert_close(IdealLowpassPool2d(1)(x), torch.full((1, 1, 2, 2), 7.5))


@given(
    st.tuples(st.integers(1, 17), st.integers(1, 17)),
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.integers(0, 99),
)
@settings(max_examples=100)
def test_every_size_and_stride_agrees_with_numpy(size, stride, seed):
    x = torch.randn(2, 2, *size, generator=torch.Generator().manual_seed(seed)).double()
    out = IdealLowpassPool2d(2, stride=stride)(x)
    assert out.shape[2:] == IdealLowpassPool2d(2, stride=stride).output_size(*size)
    assert_close(out, naive(x, stride), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("frequency", range(9))
def test_waves_below_the_new_nyquist_frequency_are_kept_and_the_others_removed(frequency):
    x = wave(16, frequency, phase=0.3)
    expected = x[..., ::2, ::2] if frequency < 4 else torch.zeros(1, 1, 8, 8).double()
    assert_close(ideal_lowpass_pool2d(x), expected, rtol=0, atol=1e-13)
