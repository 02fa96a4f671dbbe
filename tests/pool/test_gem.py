import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from cnnpool.pool import build, gem_pool2d, soft_pool2d


def test_hand_worked_example():
    x = torch.tensor([[1.0, 2, 2, 2], [3, 4, 2, 2], [0, 0, -1, 1], [0, 2, 0, -3]])[None, None]
    expected = torch.tensor([[25 ** (1 / 3), 2.0], [2 ** (1 / 3), 0.25 ** (1 / 3)]])
    assert_close(gem_pool2d(x, 2)[0, 0], expected)


def test_gradient_is_the_formula():
    x = torch.tensor([[1.0, 2.0], [-3.0, 4.0]], dtype=torch.float64)[None, None].requires_grad_()
    p = torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    y = gem_pool2d(x, 2, p=p)
    by_x, by_p = torch.autograd.grad(y, (x, p))
    floored = x.detach().clamp(min=1e-6)
    assert_close(by_x, floored**2 * y.item() ** -2 / 4 * (x.detach() > 1e-6))
    powers = floored**3
    slope = (powers * floored.log()).sum() / (3 * powers.sum()) - powers.mean().log() / 9
    assert_close(by_p, y.detach().squeeze() * slope)


def test_window_without_a_positive_cell_gives_eps_and_has_no_gradient():
    x = -torch.rand(1, 1, 2, 2)
    x.requires_grad_()
    y = gem_pool2d(x, 2, eps=1e-3)
    y.backward()
    assert_close(y.item(), 1e-3)
    assert not x.grad.any()


def test_channels_may_have_their_own_power():
    op = build("gem", 2, per="channel", p=2.0)
    with torch.no_grad():
        op.p.raw[1] = 20.0
    x = torch.rand(1, 2, 4, 4)
    assert_close(op(x)[:, :1], gem_pool2d(x[:, :1], 2, p=2.0))
    assert_close(op(x)[:, 1:], gem_pool2d(x[:, 1:], 2, p=20.0))


@pytest.mark.parametrize("operator", [gem_pool2d, soft_pool2d])
def test_nan_makes_all_gradients_of_its_window_nan(operator):
    x = torch.ones(1, 1, 2, 4)
    x[0, 0, 1, 1] = torch.nan
    y = operator(x.requires_grad_(), 2)
    y.sum().backward()
    assert y.isnan().flatten().tolist() == [True, False]
    assert x.grad[..., :2].isnan().all() and x.grad[..., 2:].isfinite().all()


def test_power_one_is_the_average_and_a_large_power_nears_the_maximum():
    x = torch.rand(2, 3, 8, 8, dtype=torch.float64) + 0.1
    assert_close(gem_pool2d(x, 2, p=1.0), F.avg_pool2d(x, 2))
    assert_close(gem_pool2d(x, 2, p=2000.0), F.max_pool2d(x, 2), rtol=1e-3, atol=0)
