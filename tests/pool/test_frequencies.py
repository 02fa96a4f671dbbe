"""Operators in the frequency domain against numpy's Fourier transform, and waves that they keep or remove."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_maps import noise
from scipy.signal import resample
from torch.autograd import gradcheck
from torch.testing import assert_close

from cnnpool import pool

SIZES = st.tuples(st.integers(1, 16), st.integers(1, 16))
STRIDES = st.tuples(st.integers(1, 4), st.integers(1, 4))


def lowpass(x, stride):
    """Zero every |f| >= 1/(2s), transform back, keep every s-th pixel."""
    spectrum = np.fft.fft2(x.numpy())
    keep = [np.abs(np.fft.fftfreq(n)) < 1 / (2 * s) for n, s in zip(x.shape[-2:], stride, strict=True)]
    smooth = np.fft.ifft2(spectrum * np.outer(*keep))
    assert np.abs(smooth.imag).max() < 1e-12 * max(1, np.abs(smooth).max())
    return torch.from_numpy(smooth.real[..., :: stride[0], :: stride[1]].copy())


def cropped(x, size, nyquist):
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


def centre(x, stride, hamming=False):
    """Real part of the transformed-back centre of the shifted spectrum, under sqrt(w w) for ASAP."""
    spectrum, cut = np.fft.fftshift(np.fft.fft2(x.numpy(), norm="forward"), (-2, -1)), [...]
    if hamming:
        frequencies = [np.fft.fftshift(np.fft.fftfreq(n)) for n in x.shape[-2:]]
        spectrum = spectrum * np.sqrt(np.outer(*(0.54 + 0.46 * np.cos(2 * np.pi * f) for f in frequencies)))
    for length, s in zip(x.shape[-2:], stride, strict=True):
        kept = -(-length // s)
        start = length // 2 - kept // 2
        cut.append(slice(start, start + kept))
    back = np.fft.ifft2(np.fft.ifftshift(spectrum[tuple(cut)], (-2, -1)), norm="forward")
    return torch.from_numpy(back.real)


def test_maps_of_four_by_four_worked_by_hand():
    # Frequencies 0, 1/4 and 1/2 cycles per pixel: at stride 2 only the first is below 1/4.
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    assert_close(pool.IdealLowpassPool2d(1)(x), torch.full((1, 1, 2, 2), 7.5))
    # Of (1, 0, -1, 0), a wave of frequency 1/4, half is kept: cos(pi n)/2 on the new grid.
    line = torch.tensor([5.0, 4, 3, 4]).expand(1, 1, 4, 4)
    assert_close(pool.SpectralPool2d(1)(line), torch.tensor([4.5, 3.5]).expand(1, 1, 2, 2))
    # Mean 4 passes whole; the quarter wave, halved by the cut, times sqrt(0.54).
    assert_close(pool.AsapPool2d(1)(line)[0, 0, 0], 4 + torch.tensor([0.5, -0.5]) * 0.54**0.5)
    # cos(pi n / 2) along each axis: on the new grid cos(pi n), half of it each; their product: the real part.
    wave = torch.tensor([1.0, 0, -1, 0])
    x = 4 + wave[:, None] + torch.outer(wave, wave)
    assert_close(pool.FlcPool2d(1)(x[None, None]), torch.tensor([[[[4.75, 4.25], [3.25, 3.75]]]]))


@given(SIZES, STRIDES, st.integers(0, 99))
@settings(max_examples=80)
def test_every_size_and_stride_agrees_with_numpy(size, stride, seed):
    x = noise(2, 2, *size, seed=seed)
    low = pool.IdealLowpassPool2d(2, stride=stride)
    assert low(x).shape[2:] == low.output_size(*size)
    assert_close(low(x), lowpass(x, stride), rtol=1e-10, atol=1e-10)
    assert_close(pool.FlcPool2d(2, stride=stride)(x), centre(x, stride), rtol=1e-10, atol=1e-11)
    hamming = centre(x, stride, hamming=True)
    assert_close(pool.AsapPool2d(2, stride=stride)(x), hamming, rtol=1e-10, atol=1e-11)


@given(SIZES, st.data())
@settings(max_examples=80)
def test_a_crop_of_any_size_agrees_with_numpy_and_scipy(size, data):
    kept = tuple(data.draw(st.integers(1, n)) for n in size)
    x = noise(2, 2, *size, seed=data.draw(st.integers(0, 99)))
    for nyquist in ("mean", "sum", "zero"):
        ours = pool.spectral_pool2d(x, kept, nyquist=nyquist)
        assert_close(ours, cropped(x, kept, nyquist), rtol=1e-10, atol=1e-11)
    theirs = torch.from_numpy(resample(resample(x.numpy(), kept[0], axis=2), kept[1], axis=3))
    assert_close(pool.spectral_pool2d(x, kept, nyquist="sum"), theirs, rtol=1e-10, atol=1e-11)


def paper_mask(length, stride, smoothness):
    """clip((R + H/(2S) - |k|)/R, 0, 1) at every frequency of numpy's transform."""
    number = np.abs(np.fft.fftfreq(length, 1 / length))
    return np.clip((smoothness + length / (2 * stride) - number) / smoothness, 0, 1)


@pytest.mark.parametrize("size", [(16, 16), (24, 9), (15, 32), (1, 2)])
@pytest.mark.parametrize("stride, bandwidth, smoothness", [(2, 0.8, 4.0), (3, 0.3, 1.5), (1.5, 0.6, 0.1)])
def test_diffstride_is_the_papers_mask_and_then_a_crop(size, stride, bandwidth, smoothness):
    op = pool.DiffStride2d(2, stride=stride, bandwidth=bandwidth, smoothness=smoothness).double()
    x = noise(2, 2, *size)
    masks = [paper_mask(n, stride / bandwidth, smoothness) for n in size]
    masked = np.fft.ifft2(np.fft.fft2(x.numpy()) * np.outer(*masks)).real
    expected = pool.spectral_pool2d(torch.from_numpy(masked), op.output_size(*size))
    assert_close(op(x), expected, rtol=1e-7, atol=1e-7)


def test_each_axis_learns_its_own_stride():
    op = pool.DiffStride2d(1, stride=(2, 4))
    with torch.no_grad():
        op.band.copy_(torch.tensor([0.5, 0.25]).logit())
    down, across = op.mask(32, 64)
    assert_close(down, torch.tensor([*[1.0] * 5, 0.75, 0.5, 0.25, *[0] * 9])[:9])
    assert_close(across, torch.tensor([*[1.0] * 3, 0.75, 0.5, 0.25, *[0.0] * 9])[:9])


def test_gradient_of_the_band_is_the_numerical_one():
    op, x = pool.DiffStride2d(2).double(), noise(2, 2, 16, 18)
    band = torch.tensor([0.3, 1.1], dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda band: torch.func.functional_call(op, {"band": band}, (x,)), (band,))
    op(x).square().sum().backward()
    assert (op.band.grad > 0).all(), "a wider band lets more energy through"


def test_no_learnt_value_changes_a_shape_or_the_gain():
    for logit, size in itertools.product((-60.0, 3.0, 60.0), ((1, 1), (7, 8), (32, 28))):
        op = pool.DiffStride2d(2)
        torch.nn.init.constant_(op.band, logit)
        assert_close(op(torch.ones(1, 2, *size)), torch.ones(1, 2, *(-(-n // 2) for n in size)))
