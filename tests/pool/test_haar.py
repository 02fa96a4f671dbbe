"""The Haar band against PyWavelets and twice the average."""

import pywt
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from cnnpool.pool import HaarPool2d


@given(st.integers(1, 9), st.integers(1, 9), st.sampled_from(["periodization", "symmetric"]))
@settings(max_examples=60)
def test_every_size_agrees_with_pywavelets(height, width, mode):
    x = torch.randn(2, 3, height, width, generator=torch.Generator().manual_seed(0)).double()
    low, _ = pywt.dwt2(x.numpy(), "haar", mode=mode)
    assert_close(HaarPool2d(3)(x), torch.from_numpy(low))


def test_without_orthonormality_it_is_the_average_and_says_so():
    x, op = torch.randn(2, 3, 7, 6).double(), HaarPool2d(3, orthonormal=False)
    assert_close(op(x), HaarPool2d(3)(x) / 2)
    assert (HaarPool2d(3).gain, op.gain, HaarPool2d.gain) == (2, 1, 2)
    assert_close(op(torch.ones(1, 3, 7, 6)), torch.ones(1, 3, 4, 3))
