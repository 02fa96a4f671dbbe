import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from cnnpool.pool import logsumexp_pool2d


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_small_r_is_the_average_without_cancellation(dtype):
    x = torch.randn(2, 3, 8, 8, dtype=dtype)
    for r in (1e-6, 1e-20):
        assert_close(logsumexp_pool2d(x, 2, r=r), F.avg_pool2d(x, 2), rtol=1e-5, atol=1e-5)


def test_huge_values_neither_overflow_nor_lose_the_maximum():
    x = torch.tensor([[1e4, 1e4 - 1], [-1e30, 0.0]])[None, None]
    expected = 1e4 + math.log((1 + math.exp(-1)) / 4)
    assert_close(logsumexp_pool2d(x, 2).item(), expected, rtol=1e-6, atol=0)


def test_infinities_have_the_limit_and_a_finite_gradient():
    inf = math.inf
    x = torch.tensor([[-inf, -inf, inf, 1, -inf, 1], [-inf, -inf, 0, 2, 1, 1]])[None, None].requires_grad_()
    y = logsumexp_pool2d(x, 2)
    assert_close(y.flatten(), torch.tensor([-inf, inf, 1 + math.log(0.75)]))
    y[..., 2].sum().backward()
    assert_close(x.grad[0, 0, :, 4:], torch.tensor([[0, 1], [1, 1]]) / 3)
    x.grad = None
    logsumexp_pool2d(x, 2).sum().backward()
    assert x.grad.isfinite().all()


def test_gradient_of_r_is_the_numerical_one():
    x, r = torch.randn(1, 2, 4, 4, dtype=torch.float64), torch.tensor([0.01, 3.0], dtype=torch.float64)
    r = r[:, None, None].requires_grad_()
    assert torch.autograd.gradcheck(lambda r: logsumexp_pool2d(x, 2, r=r), r)
