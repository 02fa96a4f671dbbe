import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from cnnpool.pool import build, lip_pool2d


def test_hand_worked_example():
    x = torch.tensor([[1.0, 2, 4, 4], [3, 4, 4, 4]])[None, None]
    logits = torch.tensor([[0, math.log(2), 5, -5], [0, 0, 1, 2]])[None, None]
    assert_close(lip_pool2d(x, logits, 2), torch.tensor([[[[12 / 5, 4.0]]]]))


def test_equal_logits_give_the_average_and_strong_ones_select():
    x = torch.randn(2, 3, 9, 9, dtype=torch.float64)
    for level in (0.0, 1e5, -math.inf):
        logits = torch.full_like(x, level)
        expected = F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)
        assert_close(lip_pool2d(x, logits, 3, 2, 1), expected)
    assert_close(lip_pool2d(x, 1e9 * x, 3, 2, 1), F.max_pool2d(x, 3, 2, 1))


def test_equals_the_published_ratio_of_averages():
    x, logits = torch.randn(2, 2, 3, 9, 9, dtype=torch.float64)
    e = logits.exp()
    assert_close(lip_pool2d(x, logits, 3, 2, 1), F.avg_pool2d(x * e, 3, 2, 1) / F.avg_pool2d(e, 3, 2, 1))


def test_gradients_are_the_formulas():
    x, logits = torch.randn(2, 1, 1, 2, 2, dtype=torch.float64).unbind()
    x.requires_grad_(), logits.requires_grad_()
    y = lip_pool2d(x, logits, 2)
    by_x, by_logits = torch.autograd.grad(y, (x, logits))
    w = logits.detach().flatten().softmax(0)
    assert_close(by_x.flatten(), w)
    assert_close(by_logits.flatten(), w * (x.detach().flatten() - y.item()))


@pytest.mark.parametrize("bottleneck", [0, 2])
def test_starts_as_average_pooling(bottleneck):
    op, x = build("lip", 4, bottleneck=bottleneck), torch.randn(2, 4, 9, 8)
    assert_close(op(x), F.avg_pool2d(x, 3, 2, 1, count_include_pad=False))


def test_logits_are_scaled_sigmoids_of_the_normalised_convolution():
    op, x = build("lip", 3, scale=7.0), torch.randn(2, 3, 8, 8)
    torch.nn.init.normal_(op.logits.conv.weight)
    normalised = F.instance_norm(F.conv2d(x, op.logits.conv.weight, padding=1))
    assert_close(op.logits(x), 7 * normalised.sigmoid(), rtol=1e-4, atol=1e-4)
    assert_close(op(x), lip_pool2d(x, op.logits(x), 3, 2, 1))


def test_parameter_counts_are_those_of_the_paper():
    plain, narrow = build("lip", 8), build("lip", 8, bottleneck=4)
    assert sum(p.numel() for p in plain.parameters()) == 8 * 8 * 9 + 2 * 8
    assert sum(p.numel() for p in narrow.parameters()) == 8 * 2 + 2 * 2 + 2 * 2 * 9 + 2 * 2 + 2 * 8 + 2 * 8
