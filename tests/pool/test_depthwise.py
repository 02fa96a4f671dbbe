"""The depthwise convolution against a grouped convolution and average pooling."""

import torch
import torch.nn.functional as F
from torch.testing import assert_close

from cnnpool.pool import DepthwiseConv2d


def test_each_channel_is_convolved_alone():
    op, x = DepthwiseConv2d(3, activation="none").double(), torch.randn(2, 3, 9, 8).double()
    alone = [
        F.conv2d(x[:, c : c + 1], op.conv.weight[c : c + 1], op.conv.bias[c : c + 1], stride=2, padding=1)
        for c in range(3)
    ]
    assert_close(op(x), torch.cat(alone, 1))
