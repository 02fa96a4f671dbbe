"""A dense maximum, then the phase of largest norm."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cnnpool.pool import ApsPool2d, MaxApsPool2d


def slow(x, kernel, stride):
    """One map (H, W) in float64: the maximum of every circular window, then the phase of largest norm."""
    dense = torch.stack([x.roll((-i, -j), (0, 1)) for i in range(kernel) for j in range(kernel)]).amax(0)
    phases = [dense[i::stride, j::stride] for i in range(stride) for j in range(stride)]
    return max(phases, key=lambda phase: phase.square().sum())


@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 2), (2, 3), (1, 2)])
def test_it_is_the_slow_obvious_one(kernel, stride):
    x = torch.randn(1, 1, 12, 12, dtype=torch.float64)
    y = MaxApsPool2d(1, kernel_size=kernel, stride=stride)(x)
    assert torch.equal(y[0, 0], slow(x[0, 0], kernel, stride))


@given(st.integers(0, 7), st.integers(0, 7), st.integers(0, 999))
def test_a_circular_shift_of_the_input_shifts_the_output(down, across, seed):
    x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(seed))
    pool = MaxApsPool2d(3)
    y, shifted = pool(x), pool(x.roll((down, across), (2, 3)))
    for one, other in zip(y, shifted, strict=True):
        rolled = [one.roll((i, j), (1, 2)) for i in range(4) for j in range(4)]
        assert any(torch.equal(other, each) for each in rolled)


def test_a_window_of_one_pixel_is_aps_and_a_residual_branch_takes_the_same_phase():
    x = torch.randn(4, 3, 8, 8)
    assert torch.equal(MaxApsPool2d(3, kernel_size=1)(x), ApsPool2d(3)(x))
    pool = MaxApsPool2d(3)
    assert torch.equal(pool(x, pool.choose(x)), pool(x))


def test_the_gradient_goes_to_the_winners_of_the_chosen_phase():
    x = torch.tensor([[1.0, 2, 0, 0], [0, 0, 0, 9], [0, 0, 0, 0], [0, 3, 0, 0]]).view(1, 1, 4, 4)
    x.requires_grad_()
    y = MaxApsPool2d(1)(x)
    y.backward(torch.ones_like(y))
    # Phase (0, 0), the first of two of norm 94; of its all-zero window the first pixel wins.
    assert y.flatten().tolist() == [2.0, 9.0, 3.0, 0.0]
    assert x.grad[0, 0].nonzero().tolist() == [[0, 1], [1, 3], [2, 2], [3, 1]]
