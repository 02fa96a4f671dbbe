import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from cnnpool.pool import build, lp_pool2d


def test_hand_worked_example():
    x = torch.tensor([[3.0, -4, 0, 0], [0, 0, 0, 5], [1, 1, 2, -2], [1, 1, 2, 2]])[None, None]
    assert_close(lp_pool2d(x, 2, 2), torch.tensor([[[[5.0, 5.0], [2.0, 4.0]]]]))
    assert_close(lp_pool2d(x, 2, 2, form="mean"), torch.tensor([[[[2.5, 2.5], [1.0, 2.0]]]]))
    assert build("lp", 3).gain == 1 and build("lp", 3, form="sum").gain is None


def test_odd_power_of_a_negative_sum_is_real_where_torch_has_nan():
    x = torch.full((1, 1, 2, 2), -1.0)
    assert F.lp_pool2d(x, 2.5, 2).isnan().all()
    assert_close(lp_pool2d(x, 2.5, 2).item(), 4 ** (1 / 2.5))


@pytest.mark.parametrize("p", [0.5, 1, 2, 3, math.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_all_zero_window_gives_zero_with_zero_gradient(p, dtype):
    x = torch.zeros(1, 1, 4, 4, dtype=dtype, requires_grad=True)
    y = lp_pool2d(x, p, 2)
    y.sum().backward()
    assert not y.any() and not x.grad.any()


def test_infinite_power_shares_the_gradient_among_equals():
    x = torch.tensor([[2.0, -2.0], [1.0, 2.0]])[None, None].requires_grad_()
    lp_pool2d(x, math.inf, 2).backward()
    assert_close(x.grad[0, 0], torch.tensor([[1, -1], [0, 1]]) / 3)


def test_neither_huge_nor_tiny_values_over_or_underflow():
    for scale in (1e30, 1e-30):
        x = torch.tensor([[3.0, 4.0], [0.0, 0.0]])[None, None] * scale
        assert_close(lp_pool2d(x, 2, 2).item() / scale, 5.0)
        assert_close(lp_pool2d(x, 30, 2).item() / scale, 4.0, rtol=1e-4, atol=0)


@pytest.mark.parametrize("p", [0.5, 1, 1.5, 2, 3, 7.5, math.inf])
@pytest.mark.parametrize("kernel", [2, 3])
def test_infinite_cell_makes_its_window_infinite(p, kernel):
    x = torch.ones(1, 1, 6, 6)
    x[0, 0, :3, :3] = torch.tensor([[-math.inf, 1.0, 3.0], [0.0, 2.0, 1.0], [1.0, 1.0, 0.0]])
    y = lp_pool2d(x.requires_grad_(), p, kernel)
    assert y[0, 0, 0, 0] == math.inf
    assert y.flatten()[1:].isfinite().all()
    y.sum().backward()
    if p != math.inf:
        learnt = torch.tensor(float(p), requires_grad=True)
        (slope,) = torch.autograd.grad(lp_pool2d(x, learnt, kernel).sum(), learnt)
        assert slope.isfinite()
    assert p == math.inf or not x.grad[0, 0, :kernel, :kernel].any(), "no gradient"
    assert x.grad.isfinite().all() and x.grad[0, 0, 3:, 3:].all()
