import torch
import torch.nn.functional as F
from torch.testing import assert_close

from cnnpool.pool import build, mixed_pool2d


def test_hand_worked_example():
    x = torch.tensor([[1.0, 2, 0, 0], [3, 6, 0, -4]])[None, None]
    assert_close(mixed_pool2d(x, 2, mix=0.25), torch.tensor([[[[3.75, -0.75]]]]))


def test_gradients_are_the_formulas():
    x = torch.tensor([[1.0, 4.0], [4.0, -1.0]], dtype=torch.float64)[None, None].requires_grad_()
    mix = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    by_x, by_mix = torch.autograd.grad(mixed_pool2d(x, 2, mix=mix), (x, mix))
    assert_close(by_mix.item(), 4.0 - 2.0)
    assert_close(by_x.flatten(), torch.tensor([0.175, 0.475, 0.175, 0.175], dtype=torch.float64))


def test_fixed_share_has_no_parameter_and_may_be_an_end():
    op, x = build("mixed", 3, mix=1.0, learnable=False), torch.randn(1, 3, 4, 4)
    assert not list(op.parameters()) and torch.equal(op(x), F.max_pool2d(x, 2))
