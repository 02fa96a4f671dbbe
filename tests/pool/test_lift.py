"""Lifting: its inverse, Haar's transform as a special case, and the learnt step by torch's functions."""

import numpy as np
import pytest
import pywt
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from cnnpool.pool import LiftPool2d

SIZES = st.tuples(st.integers(1, 9), st.integers(1, 9))
MODES = ["reflect", "replicate", "circular", "zeros"]


def shaken(op):
    """The operator with weights so large that predictions and updates matter."""
    for parameter in op.parameters():
        torch.nn.init.normal_(parameter, std=2.0)
    return op


@settings(max_examples=60)
@given(size=SIZES, channels=st.integers(1, 3), taps=st.sampled_from([1, 3, 5]), mode=st.sampled_from(MODES))
def test_the_inverse_brings_back_the_map_to_the_last_bits(size, channels, taps, mode):
    op = shaken(LiftPool2d(channels, kernel_size=taps, padding_mode=mode).double())
    x = torch.randn(2, channels, *size, dtype=torch.float64)
    back = op.inverse(op.bands(x))
    whole = np.pad(x.numpy(), ((0, 0), (0, 0), *((0, n % 2) for n in size)), mode="edge")
    # Sixteen sums of numbers below 16, each rounded by at most 4 eps.
    assert (back - torch.from_numpy(whole)).abs().max() <= 64 * torch.finfo(torch.float64).eps


@pytest.mark.parametrize("lifting", ["learnt", "haar"])
def test_of_whole_numbers_the_inverse_is_exact(lifting):
    op, x = LiftPool2d(2, lifting=lifting), torch.randint(-99, 99, (2, 2, 8, 6)).float()
    if lifting == "learnt":
        # Predictions of exactly -1 or 1.
        for net in (op.columns.predict, op.columns.update, op.rows.predict, op.rows.update):
            torch.nn.init.zeros_(net[2].weight)
            torch.nn.init.constant_(net[2].bias, 99.0)
    assert torch.equal(op.inverse(op.bands(x)), x)


@settings(max_examples=30)
@given(size=SIZES)
def test_haars_bands_are_pywavelets_up_to_scale(size):
    x = torch.randn(2, 2, *size, dtype=torch.float64)
    low, (horizontal, vertical, diagonal) = pywt.dwt2(x.numpy(), "haar", mode="symmetric")
    # Averages and differences, where the orthonormal transform has both over sqrt 2; ours are odd - even.
    expected = (low / 2, -horizontal, -vertical, 2 * diagonal)
    for band, theirs in zip(LiftPool2d(2, lifting="haar").bands(x), expected, strict=True):
        assert_close(band, torch.from_numpy(theirs))


def test_haars_sum_of_one_cell_worked_by_hand():
    x = torch.tensor([[1.0, 2.0], [3.0, 6.0]]).view(1, 1, 2, 2)
    # Columns: averages 1.5 and 4.5, differences 1 and 3; rows: 3, 3, 2 and 2.
    assert [band.item() for band in LiftPool2d(1, lifting="haar").bands(x)] == [3, 3, 2, 2]
    assert LiftPool2d(1, lifting="haar")(x).item() == 10
    assert LiftPool2d(1, lifting="haar", bands="ll")(x).item() == 3


def test_the_learnt_step_is_the_formula():
    op, x = (
        shaken(LiftPool2d(2, kernel_size=5, padding_mode="circular").double()),
        torch.randn(2, 2, 8, 12, dtype=torch.float64),
    )

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
