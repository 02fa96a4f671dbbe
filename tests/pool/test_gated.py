import torch
import torch.nn.functional as F
from torch.testing import assert_close

from cnnpool.pool import build, gated_pool2d


def test_hand_worked_example():
    # Gate: sigmoid(1*1 - 1*4 + 2*2 - 1*1) = sigmoid(0) = 1/2, then sigmoid(0 - 0 + 2*6 - 0).
    weight = torch.tensor([[1.0, -1.0, 2.0, -1.0]])
    x = torch.tensor([[1.0, 4, 0, 0], [2, 1, 6, 0]])[None, None]
    share = torch.sigmoid(torch.tensor(12.0)).item()
    expected = [0.5 * 4 + 0.5 * 2, share * 6 + (1 - share) * 1.5]
    assert_close(gated_pool2d(x, weight, 2).flatten(), torch.tensor(expected))


def test_zero_mask_is_half_and_half_and_great_ones_are_the_ends():
    x = torch.rand(2, 3, 8, 8, dtype=torch.float64) + 0.1
    average, largest = F.avg_pool2d(x, 2), F.max_pool2d(x, 2)
    mask = torch.ones(1, 4, dtype=torch.float64)
    assert_close(gated_pool2d(x, 0 * mask, 2), (average + largest) / 2)
    assert_close(gated_pool2d(x, 1e4 * mask, 2), largest)
    assert_close(gated_pool2d(x, -1e4 * mask, 2), average)
    assert_close(build("gated", 3)(x), (average + largest) / 2)


def test_gradient_has_the_term_through_the_gate():
    x = torch.tensor([[1.0, 4.0], [2.0, 1.0]], dtype=torch.float64)[None, None].requires_grad_()
    weight = torch.randn(1, 4, dtype=torch.float64)
    gated_pool2d(x, weight, 2).backward()
    g = (weight[0] @ x.detach().flatten()).sigmoid()
    top = torch.tensor([0, 1, 0, 0], dtype=torch.float64)
    assert_close(x.grad.flatten(), g * top + (1 - g) / 4 + g * (1 - g) * weight[0] * (4 - 2))


def test_gate_is_a_depthwise_convolution_with_zero_padding():
    x, weight = torch.randn(2, 3, 7, 8, dtype=torch.float64), torch.randn(3, 9, dtype=torch.float64)
    gate = F.conv2d(x, weight.reshape(3, 1, 3, 3), stride=2, padding=1, groups=3).sigmoid()
    average = F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)
    expected = gate * F.max_pool2d(x, 3, 2, 1) + (1 - gate) * average
    assert_close(gated_pool2d(x, weight, 3, 2, 1), expected)
