"""The windowed sinc filter against scipy's design and numpy's padding."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import signal, special
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from cnnpool.pool import KaiserPool2d, kaiser_pool2d
from cnnpool.pool.kaiser import TRANSITION, bessel, kaiser_beta, kaiser_taps

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


@pytest.mark.parametrize("attenuation", [0.0, 15.0, 21.0, 21.1, 35.0, 50.0, 50.1, 90.0, 3000.0])
def test_the_windows_parameter_is_scipys(attenuation):
    assert kaiser_beta(attenuation) == pytest.approx(signal.kaiser_beta(attenuation), rel=1e-14)


@pytest.mark.parametrize("x", [0.0, 1e-9, 0.5, 3.0, 20.0, 402.0])
def test_bessels_function_is_scipys(x):
    assert bessel(x) == pytest.approx(special.i0(x), rel=1e-12)


def test_transition_is_that_of_critical_sampling():
    # Karras 2021: f_h = (sqrt 2 - 1) s/2, of which the transition band has two.
    assert pytest.approx(2 * (math.sqrt(2) - 1), abs=0) == TRANSITION


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


def test_lower_cutoff_and_longer_filter_alias_less():
    x = torch.cos(math.pi * 0.6 * torch.arange(64, dtype=torch.float64)).expand(1, 1, 64, 64)
    left = [
        kaiser_pool2d(x, m, cutoff=c)[..., 8:-8, 8:-8].norm().item() for m, c in ((5, 1), (11, 1), (11, 0.6))
    ]
    assert left[0] > left[1] > left[2]


def test_one_tap_subsamples():
    x = image(1, 2, 7, 8)
    assert torch.equal(kaiser_pool2d(x, 1), x[..., ::2, ::2])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_summed_in_float32(dtype):
    x = image(2, 3, 16, 16).to(dtype)
    assert torch.equal(kaiser_pool2d(x), kaiser_pool2d(x.float()).to(dtype))


def test_autocast_keeps_the_gain_exact():
    x = torch.full((1, 2, 16, 16), 3.0)
    with torch.autocast("cpu", torch.bfloat16):
        out = KaiserPool2d(2)(x)
    assert out.dtype == torch.float32
    assert_close(out, torch.full_like(out, 3.0), rtol=1e-6, atol=0)


def test_flops_are_those_torch_counts():
    op = KaiserPool2d(4, filter_size=(5, 8), stride=(2, 3))
    with FlopCounterMode(display=False) as counter:
        # The vertical pass of torch's count sees the padded columns, too.
        op(torch.randn(1, 4, 9, 12))
    assert op.flops(9, 12) == counter.get_total_flops() - 2 * 4 * 5 * 5 * (3 + 4)
