import math

import pytest
import torch
from torch.testing import assert_close

from cnnpool.pool import ada_pool2d, build, soft_pool2d
from cnnpool.pool.ada import dice_mean
from cnnpool.pool.window import window_of


def dice(x):
    return dice_mean(x, window_of(2, None, 0))


def test_hand_worked_example():
    # Mean 1; similarities 2*3/10, 0, 2*1/2 and 0.
    x = torch.tensor([[3.0, 0.0], [1.0, 0.0]])[None, None]
    weights = [math.exp(0.6), 1.0, math.exp(1.0), 1.0]
    expected = (3 * weights[0] + weights[2]) / sum(weights)
    assert_close(dice(x).item(), expected)
    soft = (3 * math.exp(3) + math.exp(1)) / (math.exp(3) + math.exp(1) + 2)
    assert_close(ada_pool2d(x, 2, beta=0.25).item(), 0.25 * expected + 0.75 * soft)


def test_similarity_half_scales_with_its_input_at_any_magnitude():
    x = torch.randn(2, 3, 8, 8)
    for scale in (1e30, 1e-30):
        assert_close(dice(x * scale) / scale, dice(x))


def test_zero_over_zero_is_zero_with_a_finite_gradient():
    x = torch.tensor([[0.0, 0, 1, -1], [0, 0, 0, 0]])[None, None].requires_grad_()
    y = ada_pool2d(x, 2)
    y.sum().backward()
    # Mean 0: all similarities are 0, so the second window's similarity half is its mean.
    assert_close(dice(x).flatten(), torch.zeros(2))
    assert x.grad.isfinite().all()


def test_the_gradient_of_subnormal_activations_is_that_of_larger_ones():
    x = torch.rand(1, 2, 8, 8)
    tiny = torch.finfo(torch.float32).smallest_normal

    def gradient(scale):
        scaled = (x * scale).requires_grad_()
        assert torch.autograd.grad(ada_pool2d(scaled, 2).sum(), scaled)[0].isfinite().all()
        return torch.autograd.grad(dice(scaled).sum(), scaled)[0]

    for scale in (tiny, tiny / 2**8):
        assert_close(gradient(scale), gradient(1.0), rtol=1e-2, atol=1e-2)


def test_beta_per_location_follows_the_map():
    op = build("ada", 2, size=(8, 6))
    with torch.no_grad():
        op.beta.raw.copy_(torch.linspace(-3, 3, 12))
    x = torch.randn(2, 2, 8, 6)
    beta = torch.linspace(-3, 3, 12).sigmoid().reshape(4, 3)
    assert_close(op(x), beta * dice(x) + (1 - beta) * soft_pool2d(x, 2))
    with pytest.raises(ValueError, match=r"size=\(8, 6\), got \(8, 8\)"):
        op(torch.randn(2, 2, 8, 8))
