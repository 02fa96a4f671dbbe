"""The reduction block's two branches, against torch."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from cnnpool.pool import ReductionBlock2d


@pytest.mark.parametrize(("channels", "pooled"), [(4, 2), (5, 2), (2, 1)])
def test_half_of_the_channels_is_pooled_and_the_rest_convolved_from_all(channels, pooled):
    op, x = ReductionBlock2d(channels).double(), torch.randn(2, channels, 9, 8).double()
    maxima = F.max_pool2d(x[:, :pooled], 3, 2, 1)
    learnt = F.conv2d(x, op.conv.weight, op.conv.bias, stride=2, padding=1).relu()
    assert learnt.shape[1] == channels - pooled
    assert_close(op(x), torch.cat([maxima, learnt], 1))


def test_one_channel_is_convolved():
    op, x = ReductionBlock2d(1, activation="none").double(), torch.randn(2, 1, 8, 8).double()
    assert_close(op(x), F.conv2d(x, op.conv.weight, op.conv.bias, stride=2, padding=1))


def test_norm_and_activation_touch_the_convolved_channels_alone():
    op, x = ReductionBlock2d(4, norm="batch", activation="gelu").double(), torch.randn(3, 4, 8, 8).double()
    convolved = F.conv2d(x, op.conv.weight, stride=2, padding=1)
    learnt = F.gelu(F.batch_norm(convolved, None, None, training=True))
    assert_close(op(x), torch.cat([F.max_pool2d(x[:, :2], 3, 2, 1), learnt], 1))
