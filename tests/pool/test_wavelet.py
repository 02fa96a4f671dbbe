"""Daubechies' wavelets against PyWavelets, and the transform's orthonormality."""

import numpy as np
import pytest
import pywt
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from cnnpool.pool import WaveletPool2d, wavelet_bands2d, wavelet_bank
from cnnpool.pool.wavelet import daubechies

ORDERS = range(1, 11)


def pywt_bands(x, order, mode):
    """The four bands of PyWavelets in our order, (N, 4 C, H', W')."""
    low, (horizontal, vertical, diagonal) = pywt.dwt2(x.numpy(), f"db{order}", mode=mode)
    bands = torch.stack([torch.from_numpy(b) for b in (low, horizontal, vertical, diagonal)], 2)
    return bands.flatten(1, 2)


@pytest.mark.parametrize("order", ORDERS)
def test_filter_is_that_of_pywavelets(order):
    assert daubechies(order) == pytest.approx(pywt.Wavelet(f"db{order}").rec_lo, abs=1e-9)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 6))
@settings(max_examples=80)
def test_every_size_agrees_with_pywavelets_periodization(height, width, order):
    x = torch.randn(2, 2, height, width, generator=torch.Generator().manual_seed(0)).double()
    theirs = pywt_bands(x, order, "periodization")
    assert_close(wavelet_bands2d(x, wavelet_bank(order)), theirs, rtol=1e-8, atol=1e-8)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 6))
@settings(max_examples=50)
def test_symmetric_edges_are_those_of_the_mirrored_map(height, width, order):
    x = torch.randn(2, 2, height, width, generator=torch.Generator().manual_seed(0)).double()
    mirrored = np.pad(x.numpy(), ((0, 0), (0, 0), (12, 12), (12, 12)), mode="symmetric")
    theirs = pywt_bands(torch.from_numpy(mirrored), order, "periodization")
    rows, columns = -(-height // 2), -(-width // 2)
    ours = wavelet_bands2d(x, wavelet_bank(order), edges="symmetric")
    assert_close(ours, theirs[..., 6 : 6 + rows, 6 : 6 + columns], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("size", [(8, 8), (4, 10), (2, 24)])
def test_four_bands_hold_the_energy_and_the_adjoint_brings_the_map_back(order, size):
    x = torch.randn(1, 2, *size).double().requires_grad_()
    bands = wavelet_bands2d(x, wavelet_bank(order))
    assert_close(bands.norm(), x.norm(), rtol=1e-9, atol=0)
    (back,) = torch.autograd.grad(bands, x, bands)
    assert_close(back, x, rtol=0, atol=1e-8)


@pytest.mark.parametrize("order", [2, 4, 10])
@pytest.mark.parametrize("edges", ["circular", "symmetric"])
@pytest.mark.parametrize("size", [(1, 1), (2, 3), (9, 8)])
def test_constant_map_doubles_at_every_size_and_edge(order, edges, size):
    out = WaveletPool2d(2, order=order, edges=edges)(torch.ones(1, 2, *size))
    assert_close(out, torch.full((1, 2, -(-size[0] // 2), -(-size[1] // 2)), 2.0))


def test_all_bands_are_mixed_by_a_learnt_convolution():
    x, op = torch.randn(2, 3, 10, 12), WaveletPool2d(3, bands="all")
    bands = wavelet_bands2d(x, wavelet_bank(2))
    assert bands.shape == (2, 12, 5, 6)
    assert_close(op(x), F.conv2d(bands, op.mix.weight, op.mix.bias))
    assert op.gain is None and WaveletPool2d.gain == 2 and op.flops(8, 8) > WaveletPool2d(3).flops(8, 8)


def test_operator_keeps_the_first_band_of_the_transform():
    x = torch.randn(2, 3, 10, 12)
    bands = wavelet_bands2d(x, wavelet_bank(3), edges="symmetric")
    assert_close(WaveletPool2d(3, order=3, edges="symmetric")(x), bands[:, ::4])
