"""The windowed sinc filter against scipy's design and numpy's padding."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal
from torch.testing import assert_close

from cnnpool.pool import KaiserPool2d, kaiser_pool2d
from cnnpool.pool.kaiser import TRANSITION, kaiser_taps

NUMPYS = {"reflect": "reflect", "replicate": "edge", "circular": "wrap", "zeros": "constant"}
SHARES = st.floats(0.05, 1.0)


def image(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@settings(max_examples=100)
@given(taps=st.integers(2, 255), stride=st.integers(2, 9), cutoff=SHARES, width=st.floats(0.02, 2.0))
def test_the_filter_is_scipys(taps, stride, cutoff, width):
    nyquist = 1 / (2 * stride)
    theirs = signal.firwin(taps, cutoff * nyquist, width=width * nyquist, fs=1)
    assert kaiser_taps(taps, stride, cutoff, width) == pytest.approx(theirs, abs=1e-13)


@settings(max_examples=50)
@given(
    size=st.tuples(st.integers(1, 14), st.integers(1, 14)),
    taps=st.tuples(st.integers(1, 13), st.integers(1, 13)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    mode=st.sampled_from(sorted(NUMPYS)),
)
def test_every_size_is_numpys_padding_and_scipys_correlation(size, taps, stride, mode):
    op = KaiserPool2d(2, filter_size=taps, stride=stride, cutoff=0.9, padding_mode=mode)
    x = image(2, 2, *size)
    sides = [((m - 1) // 2, m // 2) for m in taps]
    around = np.pad(x.numpy(), ((0, 0), (0, 0), *sides), mode=NUMPYS[mode])
    kernel = np.outer(*(kaiser_taps(m, s, 0.9, TRANSITION) for m, s in zip(taps, stride, strict=True)))
    dense = signal.correlate(around, kernel[None, None], mode="valid", method="direct")
    expected = torch.from_numpy(dense[..., :: stride[0], :: stride[1]].copy())
    assert op(x).shape[2:] == op.output_size(*size) == expected.shape[2:]
    assert_close(op(x), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("filter_size", [23, 24])
def test_waves_below_the_transition_pass_and_those_above_do_not(filter_size):
    turn = 2 * math.pi * torch.arange(64, dtype=torch.float64) / 64
    gains = []
    for cycles in range(33):
        x = torch.cos(cycles * turn + 0.3).expand(1, 1, 64, 64)
        out = kaiser_pool2d(x, filter_size, width=0.5, padding_mode="circular")
        gains.append((out[..., 0, :].norm() * math.sqrt(2) / x[..., 0, :].norm()).item())
    # 16 cycles are the new Nyquist frequency; the transition band is 12 to 20.
    assert gains[:13] == pytest.approx([1.0] * 13, abs=0.03)
    assert max(gains[20:]) < 0.03
