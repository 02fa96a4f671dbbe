"""FrequencyLowCut pooling against numpy's shifted Fourier transform."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from cnnpool.pool import FlcPool2d


def naive(x, stride):
    """Real part of the transformed-back centre of the shifted spectrum."""
    spectrum, cut = np.fft.fftshift(np.fft.fft2(x.numpy(), norm="forward"), (-2, -1)), [...]
    for length, s in zip(x.shape[-2:], stride, strict=True):
        kept = -(-length // s)
        start = length // 2 - kept // 2
        cut.append(slice(start, start + kept))
    return torch.from_numpy(
        np.fft.ifft2(np.fft.ifftshift(spectrum[tuple(cut)], (-2, -1)), norm="forward").real
    )


def quarter(x):
    """The paper's cut, from 1/4 to 3/4 of the shifted spectrum."""
    (height, width), spectrum = (
        x.shape[-2:],
        np.fft.fftshift(np.fft.fft2(x.numpy(), norm="forward"), (-2, -1)),
    )
    cut = spectrum[..., int(height / 4) : int(height / 4 * 3), int(width / 4) : int(width / 4 * 3)]
    return torch.from_numpy(np.fft.ifft2(np.fft.ifftshift(cut, (-2, -1)), norm="forward").real)


def test_hand_worked_4x4_keeps_the_mean_and_half_of_the_quarter_waves():
    # cos(pi n / 2) along each axis: on the new grid cos(pi n), half of it each; their product: the real part.
    line = torch.tensor([1.0, 0, -1, 0])
    x = 4 + line[:, None] + torch.outer(line, line)
    assert_close(FlcPool2d(1)(x[None, None]), torch.tensor([[[[4.75, 4.25], [3.25, 3.75]]]]))


@given(
    st.tuples(st.integers(1, 16), st.integers(1, 16)),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.integers(0, 99),
)
@settings(max_examples=100)
def test_every_size_and_stride_agrees_with_numpy(size, stride, seed):
    x = torch.randn(2, 2, *size, generator=torch.Generator().manual_seed(seed)).double()
    assert_close(FlcPool2d(2, stride=stride)(x), naive(x, stride), rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("size", [(8, 8), (12, 16), (31, 32), (7, 11)])
def test_it_is_the_papers_cut_where_that_is_centred(size):
    x = torch.randn(2, 3, *size).double()
    assert_close(FlcPool2d(3)(x), quarter(x), rtol=1e-10, atol=1e-11)


def test_constant_map_stays_constant_where_the_papers_cut_loses_its_centre():
    x = torch.ones(1, 1, 6, 6).double()
    assert (quarter(x) - 1).abs().max() > 1
    assert_close(FlcPool2d(1)(x), torch.ones(1, 1, 3, 3).double())
