"""Haar's, Daubechies' and learnt wavelets against PyWavelets, their inverses and torch's functions."""

import numpy as np
import pytest
import pywt
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from random_maps import maps
from torch.testing import assert_close

from cnnpool.pool import HaarPool2d, LiftPool2d, WaveletPool2d, wavelet_bands2d, wavelet_bank
from cnnpool.pool.wavelet import daubechies

ORDERS = range(1, 11)
SIZES = st.tuples(st.integers(1, 12), st.integers(1, 12))


def pywt_bands(x, order, mode):
    """The four bands of PyWavelets in our order, (N, C, 4, H', W')."""
    low, details = pywt.dwt2(x.numpy(), f"db{order}", mode=mode)
    return torch.stack([torch.from_numpy(band) for band in (low, *details)], 2)


@pytest.mark.parametrize("order", ORDERS)
def test_filter_is_that_of_pywavelets(order):
    assert daubechies(order) == pytest.approx(pywt.Wavelet(f"db{order}").rec_lo, abs=1e-9)


@given(SIZES, st.integers(1, 6))
@settings(max_examples=60)
def test_every_size_agrees_with_pywavelets(size, order):
    x = maps(2, 2, *size)
    theirs = pywt_bands(x, order, "periodization").flatten(1, 2)
    assert_close(wavelet_bands2d(x, wavelet_bank(order)), theirs, rtol=1e-8, atol=1e-8)
    mirrored = np.pad(x.numpy(), ((0, 0), (0, 0), (12, 12), (12, 12)), mode="symmetric")
    theirs = pywt_bands(torch.from_numpy(mirrored), order, "periodization").flatten(1, 2)
    rows, columns = (-(-n // 2) for n in size)
    ours = wavelet_bands2d(x, wavelet_bank(order), edges="symmetric")
    assert_close(ours, theirs[..., 6 : 6 + rows, 6 : 6 + columns], rtol=1e-8, atol=1e-8)
    for mode in ("periodization", "symmetric"):
        assert_close(HaarPool2d(2)(x), pywt_bands(x, 1, mode)[:, :, 0])


def test_without_orthonormality_haar_is_the_average_and_says_so():
    x, op = maps(2, 2, 7, 6), HaarPool2d(2, orthonormal=False)
    assert_close(op(x), HaarPool2d(2)(x) / 2)
    assert (HaarPool2d(3).gain, op.gain, HaarPool2d.gain) == (2, 1, 2)
    assert_close(op(torch.ones(1, 2, 7, 6)), torch.ones(1, 2, 4, 3))


@pytest.mark.parametrize("order", ORDERS)
def test_four_bands_hold_the_energy_and_the_adjoint_brings_the_map_back(order):
    for size in ((8, 8), (4, 10), (2, 24)):
        x = maps(2, 2, *size).requires_grad_()
        bands = wavelet_bands2d(x, wavelet_bank(order))
        assert_close(bands.norm(), x.norm(), rtol=1e-9, atol=0)
        (back,) = torch.autograd.grad(bands, x, bands)
        assert_close(back, x, rtol=0, atol=1e-8)


def test_the_operator_keeps_the_first_band_or_mixes_all_by_a_learnt_convolution():
    x, op = torch.randn(2, 3, 10, 12), WaveletPool2d(3, bands="all")
    bands = wavelet_bands2d(x, wavelet_bank(2))
    assert_close(op(x), F.conv2d(bands, op.mix.weight, op.mix.bias))
    assert op.gain is None and WaveletPool2d.gain == 2 and op.flops(8, 8) > WaveletPool2d(3).flops(8, 8)
    assert_close(WaveletPool2d(3)(x), bands[:, ::4])


def shaken(**options):
    """Learnt lifting with weights so large that predictions and updates matter."""
    op = LiftPool2d(2, **options).double()
    for parameter in op.parameters():
        torch.nn.init.normal_(parameter, std=2.0)
    return op


def slope(op):
    """The most by which a prediction or an update changes when a sample does: tanh and relu add nothing."""
    nets = [net for lifting in (op.columns, op.rows) for net in (lifting.predict, lifting.update)]
    each = [net[0].weight.abs().flatten(1).sum(1) * net[2].weight.abs().flatten(1).sum(1) for net in nets]
    return max(float(one.detach().max()) for one in each)


@settings(max_examples=60)
@given(SIZES, st.sampled_from([1, 3, 5]), st.sampled_from(["reflect", "replicate", "circular", "zeros"]))
def test_the_inverse_of_lifting_brings_back_the_map_up_to_rounding(size, taps, mode):
    op, x = shaken(kernel_size=taps, padding_mode=mode), maps(2, 2, *size)
    whole = np.pad(x.numpy(), ((0, 0), (0, 0), *((0, n % 2) for n in size)), mode="edge")
    # Sums of numbers below 16, each rounded by at most 4 eps, which each of two axes amplifies.
    bound = 64 * torch.finfo(torch.float64).eps * (1 + slope(op)) ** 2
    assert bound < 1e-8
    assert (op.inverse(op.bands(x)) - torch.from_numpy(whole)).abs().max() <= bound


@settings(max_examples=30)
@given(SIZES)
def test_bands_of_haars_lifting_are_pywavelets_up_to_scale(size):
    x = maps(2, 2, *size)
    low, horizontal, vertical, diagonal = pywt_bands(x, 1, "symmetric").unbind(2)
    # Averages and differences, where the orthonormal transform has both over sqrt 2; ours are odd - even.
    expected = (low / 2, -horizontal, -vertical, 2 * diagonal)
    for band, theirs in zip(LiftPool2d(2, lifting="haar").bands(x), expected, strict=True):
        assert_close(band, theirs)


def test_haars_sum_of_one_cell_worked_by_hand():
    x = torch.tensor([[1.0, 2.0], [3.0, 6.0]]).view(1, 1, 2, 2)
    # Columns: averages 1.5 and 4.5, differences 1 and 3; rows: 3, 3, 2 and 2.
    op = LiftPool2d(1, lifting="haar")
    assert [band.item() for band in op.bands(x)] == [3, 3, 2, 2] and op(x).item() == 10
    assert torch.equal(op.inverse(op.bands(x)), x)
    assert LiftPool2d(1, lifting="haar", bands="ll")(x).item() == 3


def test_the_learnt_step_is_the_formula():
    op, x = shaken(kernel_size=5, padding_mode="circular"), maps(2, 2, 8, 12)

    def net(layers, samples):
        first, _, second, _ = layers
        around = F.pad(samples, (2, 2, 0, 0), mode="circular")
        hidden = F.conv2d(around, first.weight, first.bias, groups=2).relu()
        return (hidden * second.weight[:, 0] + second.bias[:, None, None]).tanh()

    even, odd = x[..., ::2], x[..., 1::2]
    detail = odd - net(op.columns.predict, even)
    approximation = even + net(op.columns.update, detail)
    for ours, expected in zip(op.columns(x), (approximation, detail), strict=True):
        assert_close(ours, expected)


def test_the_inverse_keeps_the_memory_format_and_has_gradients():
    op, x = LiftPool2d(3), torch.randn(2, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    back = op.inverse(op.bands(x.requires_grad_()))
    assert back.is_contiguous(memory_format=torch.channels_last)
    # The map itself comes back, so its gradient is that of the identity.
    (grad,) = torch.autograd.grad(back.square().sum(), x)
    assert_close(grad, 2 * x, rtol=1e-4, atol=1e-5)
