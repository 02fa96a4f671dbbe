"""Haar wavelet downsampling against PyWavelets, torch and the operators that span the same functions."""

import pytest
import pywt
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from cnnpool.pool import HwdConv2d


def bands(x, mode):
    """PyWavelets' four bands of each channel side by side, (N, 4 C, H', W')."""
    low, (horizontal, vertical, diagonal) = pywt.dwt2(x.numpy(), "haar", mode=mode)
    return torch.stack([torch.from_numpy(b) for b in (low, horizontal, vertical, diagonal)], 2).flatten(1, 2)


def test_one_cell_worked_by_hand():
    op = HwdConv2d(1, activation="none").double()
    op.mix.weight.data = torch.tensor([1.0, 10.0, 100.0, 1000.0]).double().view(1, 4, 1, 1)
    torch.nn.init.zeros_(op.mix.bias)
    x = torch.tensor([[1.0, 2.0], [3.0, 6.0]]).double().view(1, 1, 2, 2)
    # (a + b + c + d)/2, (a + b - c - d)/2, (a - b + c - d)/2, (a - b - c + d)/2
    assert op(x).item() == pytest.approx(6 + 10 * -3 + 100 * -2 + 1000 * 1)


@settings(max_examples=40)
@given(
    size=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    channels=st.integers(1, 3),
    edges=st.sampled_from(["replicate", "zeros"]),
)
def test_it_mixes_pywavelets_bands(size, channels, edges):
    op, x = (
        HwdConv2d(channels, edges=edges, activation="none").double(),
        torch.randn(2, channels, *size, dtype=torch.float64),
    )
    theirs = bands(x, {"replicate": "symmetric", "zeros": "zero"}[edges])
    assert_close(op(x), F.conv2d(theirs, op.mix.weight, op.mix.bias))
    assert op(x).shape[2:] == op.output_size(*size) == tuple(-(-n // 2) for n in size)
