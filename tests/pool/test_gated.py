import torch
from torch.testing import assert_close

from cnnpool.pool import gated_pool2d


def test_hand_worked_example():
    # Gate: sigmoid(1*1 - 1*4 + 2*2 - 1*1) = sigmoid(0) = 1/2, then sigmoid(0 - 0 + 2*6 - 0).
    weight = torch.tensor([[1.0, -1.0, 2.0, -1.0]])
    x = torch.tensor([[1.0, 4, 0, 0], [2, 1, 6, 0]])[None, None]
    share = torch.sigmoid(torch.tensor(12.0)).item()
    expected = [0.5 * 4 + 0.5 * 2, share * 6 + (1 - share) * 1.5]
    assert_close(gated_pool2d(x, weight, 2).flatten(), torch.tensor(expected))


def test_gradient_has_the_term_through_the_gate():
    x = torch.tensor([[1.0, 4.0], [2.0, 1.0]], dtype=torch.float64)[None, None].requires_grad_()
    weight = torch.randn(1, 4, dtype=torch.float64)
    gated_pool2d(x, weight, 2).backward()
    g = (weight[0] @ x.detach().flatten()).sigmoid()
    top = torch.tensor([0, 1, 0, 0], dtype=torch.float64)
    assert_close(x.grad.flatten(), g * top + (1 - g) / 4 + g * (1 - g) * weight[0] * (4 - 2))
