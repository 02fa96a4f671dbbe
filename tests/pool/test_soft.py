import math

import pytest
import torch
from torch.testing import assert_close

from cnnpool.pool import soft_pool2d


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
