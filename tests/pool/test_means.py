"""Sums, power means and soft means: cases by hand, and the ends of their range."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import grad
from torch.testing import assert_close

from cnnpool.pool import SumPool2d, build, gem_pool2d, lp_pool2d, soft_pool2d, sum_pool2d

INF = math.inf


def test_gain_of_a_sum_is_the_number_of_cells_where_every_window_is_whole_and_integers_stay():
    assert SumPool2d(1, kernel_size=(2, 3)).gain == 6
    assert SumPool2d(1, kernel_size=3, padding=1).gain is None
    assert SumPool2d(1, kernel_size=3, ceil_mode=True).gain is None
    assert sum_pool2d(torch.arange(16).reshape(1, 4, 4), 2).tolist() == [[[10, 18], [42, 50]]]
    for x, message in ((torch.ones(1, 1, 1), ": output would be empty"), (torch.ones(2), " takes real")):
        with pytest.raises(ValueError, match=f"^sum_pool2d{message}"):
            sum_pool2d(x, 2)


def test_powers_of_an_operator_are_of_the_sum_or_mean_asked_for_and_never_fall_below_1():
    x = torch.tensor([[[[1.0, 3.0], [5.0, 7.0]]]])
    assert_close(build("lp", 1, p=2.0, form="sum")(x), torch.full((1, 1, 1, 1), math.sqrt(84)))
    operator = build("lp", 1, learnable=True)
    with torch.no_grad():
        operator.p.raw.fill_(-80.0)
    assert_close(operator(x), torch.full((1, 1, 1, 1), 4.0))


def test_a_mean_at_the_border_is_over_the_cells_inside_and_a_sum_has_fewer():
    ones = torch.ones(1, 1, 4, 4, dtype=torch.float64)
    for p in (1.5, 2.0):
        assert_close(lp_pool2d(ones, p, 2, padding=1, form="mean"), torch.ones(1, 1, 3, 3).double())
        corner = lp_pool2d(ones, p, 2, padding=1)[0, 0, 0, 0].item()
        assert_close((corner, lp_pool2d(ones, p, 2).max().item()), (1.0, 4 ** (1 / p)))


def test_an_all_zero_window_gives_zero_with_zero_gradient():
    assert build("lp", 3).gain == 1 and build("lp", 3, form="sum").gain is None
    for p, dtype in ((0.5, torch.float32), (1, None), (2, None), (2, torch.float16), (3, None), (INF, None)):
        x = torch.zeros(1, 1, 4, 4, dtype=dtype, requires_grad=True)
        y = lp_pool2d(x, p, 2)
        y.sum().backward()
        assert not y.any() and not x.grad.any()


def test_an_infinite_power_shares_the_gradient_among_equals():
    for side in (2, 8):
        x = torch.zeros(1, 1, side, side)
        x[..., :2, :2] = torch.tensor([[2.0, -2.0], [1.0, 2.0]])
        lp_pool2d(x.requires_grad_(), INF, side).backward()
        assert_close(x.grad[0, 0, :2, :2], torch.tensor([[1, -1], [0, 1]]) / 3)
        assert x.grad.count_nonzero() == 3


def test_an_infinite_power_takes_windows_of_any_size():
    x = torch.randn(2, 3, 12, 10).contiguous(memory_format=torch.channels_last)
    y = build("lp", 3, kernel_size=9, stride=3, padding=4, p=INF)(x)
    assert_close(y, F.max_pool2d(x.abs(), 9, 3, 4), rtol=0, atol=0, check_stride=True)
    assert torch.equal(lp_pool2d(x[0], INF, 9, 3, padding=4), y[0])


def test_neither_huge_nor_tiny_values_over_or_underflow():
    for scale in (1e30, 1e-30):
        x = torch.tensor([[3.0, 4.0], [0.0, 0.0]])[None, None] * scale
        assert_close(lp_pool2d(x, 2, 2).item() / scale, 5.0)
        assert_close(lp_pool2d(x, 30, 2).item() / scale, 4.0, rtol=1e-4, atol=0)


@pytest.mark.parametrize(
    ("p", "kernel"), [(0.5, 2), (1, 2), (1.5, 2), (1.5, 3), (2, 2), (3, 2), (7.5, 2), (INF, 2)]
)
def test_an_infinite_cell_makes_its_window_infinite(p, kernel):
    x = torch.ones(1, 1, 6, 6)
    # As torch's, an odd or broken power of -inf has no norm.
    infinite = -INF if p in (2, INF) else INF
    x[0, 0, :3, :3] = torch.tensor([[infinite, 1.0, 3.0], [0.0, 2.0, 1.0], [1.0, 1.0, 0.0]])
    y = lp_pool2d(x.requires_grad_(), p, kernel)
    assert y[0, 0, 0, 0] == INF
    assert y.flatten()[1:].isfinite().all()
    y.sum().backward()
    if p != INF:
        learnt = torch.tensor(float(p), requires_grad=True)
        (slope,) = grad(lp_pool2d(x, learnt, kernel).sum(), learnt)
        assert slope.isfinite()
    assert p == INF or not x.grad[0, 0, :kernel, :kernel].any(), "no gradient"
    assert x.grad.isfinite().all() and x.grad[0, 0, 3:, 3:].all()


def test_a_window_without_a_positive_cell_gives_eps_without_gradient_and_channels_may_have_their_own_power():
    x = (-torch.rand(1, 1, 2, 2)).requires_grad_()
    y = gem_pool2d(x, 2, eps=1e-3)
    y.backward()
    assert_close(y.item(), 1e-3)
    assert not x.grad.any()
    op, x = build("gem", 2, per="channel", p=2.5), torch.rand(1, 2, 4, 4)
    with torch.no_grad():
        op.p.raw[1] = 20.0
    assert_close(op(x)[:, :1], gem_pool2d(x[:, :1], 2, p=2.5))
    assert_close(op(x)[:, 1:], gem_pool2d(x[:, 1:], 2, p=20.0))


def test_values_below_the_floor_of_gem_count_as_the_floor_and_get_no_gradient():
    x = torch.tensor([[0.05, 2.0], [3.0, 0.2]])[None, None].requires_grad_()
    y = gem_pool2d(x, 2, p=3.0, eps=0.1)
    y.backward()
    mean = ((0.1**3 + 2**3 + 3**3 + 0.2**3) / 4) ** (1 / 3)
    assert_close(y.item(), mean, rtol=1e-5, atol=0)
    wanted = [0.0, *((value / mean) ** 2 / 4 for value in (2.0, 3.0, 0.2))]
    assert_close(x.grad.flatten().tolist(), wanted, rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("operator", [gem_pool2d, soft_pool2d])
def test_nan_makes_all_gradients_of_its_window_nan(operator):
    x = torch.ones(1, 1, 2, 4)
    x[0, 0, 1, 1] = torch.nan
    y = operator(x.requires_grad_(), 2)
    y.sum().backward()
    assert y.isnan().flatten().tolist() == [True, False]
    assert x.grad[..., :2].isnan().all() and x.grad[..., 2:].isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_large_values_of_a_soft_mean_do_not_overflow(dtype):
    x = torch.tensor([[100.0, 1000.0], [-1000.0, 0.0]], dtype=dtype)[None, None].requires_grad_()
    y = soft_pool2d(x, 2, beta=7.0)
    y.backward()
    assert y.item() == 1000 and x.grad.flatten().tolist() == [0, 1, 0, 0]


def test_infinities_of_a_soft_mean_have_the_limit_and_a_finite_gradient():
    x = torch.tensor([[-INF, -INF, INF, 1, -INF, 1], [-INF, -INF, 0, 2, 3, 1]])[None, None].requires_grad_()
    y = soft_pool2d(x, 2, beta=100.0)
    assert_close(y.flatten(), torch.tensor([-INF, INF, 3.0]))
    y.sum().backward()
    assert x.grad.isfinite().all()
    assert_close(x.grad[0, 0, :, 4:], torch.tensor([[0.0, 0.0], [1.0, 0.0]]))
