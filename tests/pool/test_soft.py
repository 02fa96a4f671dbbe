import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from cnnpool.pool import soft_pool2d


def test_hand_worked_example():
    log = math.log
    x = torch.tensor([[0.0, log(2), 1, 1], [0.0, 0.0, 1, 1]])[None, None]
    assert_close(soft_pool2d(x, 2), torch.tensor([[[[2 * log(2) / 5, 1.0]]]]))


def test_gradient_is_the_formula_and_negative_far_below_the_output():
    x = torch.tensor([[3.0, 0.5], [0.0, -1.0]], dtype=torch.float64)[None, None].requires_grad_()
    for beta in (1.0, 2.0):
        y = soft_pool2d(x, 2, beta=beta)
        (grad,) = torch.autograd.grad(y, x)
        w = (beta * x.detach()).flatten().softmax(0)
        assert_close(grad.flatten(), w * (1 + beta * (x.detach().flatten() - y.item())))
        assert (grad < 0).any()
        assert_close(grad.sum().item(), 1.0)


def test_small_beta_is_the_average_and_large_beta_the_maximum():
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    assert_close(soft_pool2d(x, 2, beta=1e-12), F.avg_pool2d(x, 2))
    assert_close(soft_pool2d(x, 2, beta=1e9), F.max_pool2d(x, 2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_large_values_do_not_overflow(dtype):
    x = torch.tensor([[100.0, 1000.0], [-1000.0, 0.0]], dtype=dtype)[None, None].requires_grad_()
    y = soft_pool2d(x, 2, beta=7.0)
    y.backward()
    assert y.item() == 1000 and x.grad.flatten().tolist() == [0, 1, 0, 0]


def test_infinities_have_the_limit_and_a_finite_gradient():
    inf = math.inf
    x = torch.tensor([[-inf, -inf, inf, 1, -inf, 1], [-inf, -inf, 0, 2, 3, 1]])[None, None].requires_grad_()
    y = soft_pool2d(x, 2, beta=100.0)
    assert_close(y.flatten(), torch.tensor([-inf, inf, 3.0]))
    y.sum().backward()
    assert x.grad.isfinite().all()
    assert_close(x.grad[0, 0, :, 4:], torch.tensor([[0.0, 0.0], [1.0, 0.0]]))
