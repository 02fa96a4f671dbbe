import math

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from cnnpool.pool import build, lip_pool2d


def test_equal_logits_give_the_average_and_strong_ones_select():
    x = torch.randn(2, 3, 9, 9, dtype=torch.float64)
    for level in (0.0, 1e5, -math.inf):
        logits = torch.full_like(x, level)
        expected = F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)
        assert_close(lip_pool2d(x, logits, 3, 2, 1), expected)
    assert_close(lip_pool2d(x, 1e9 * x, 3, 2, 1), F.max_pool2d(x, 3, 2, 1))


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
