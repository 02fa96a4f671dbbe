import pytest
import torch
from torch.testing import assert_close

from cnnpool.pool import build, gem_pool2d, soft_pool2d


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
