"""The strided convolution against torch, scipy and its own gradient's coverage."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from cnnpool.pool import StridedConv2d, Subsample2d, build


@pytest.mark.parametrize("kernel_size", [1, 3, 5])
def test_it_is_a_convolution_of_stride_one_subsampled(kernel_size):
    op, x = StridedConv2d(3, kernel_size=kernel_size).double(), torch.randn(2, 3, 9, 8, dtype=torch.float64)
    dense = F.conv2d(x, op.conv.weight, op.conv.bias, padding=kernel_size // 2).relu()
    assert_close(op(x), Subsample2d(3)(dense))


@pytest.mark.parametrize("name", ["strided", "depthwise"])
@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("kernel_size", [2, 3])
def test_edges_are_those_of_torchs_convolution(name, mode, kernel_size):
    op = build(name, 3, kernel_size=kernel_size, padding=1, padding_mode=mode, activation="none").double()
    groups = 3 if name == "depthwise" else 1
    torchs = nn.Conv2d(3, 3, kernel_size, 2, 1, groups=groups, padding_mode=mode, dtype=torch.float64)
    torchs.load_state_dict(op.conv.state_dict())
    x = torch.randn(2, 3, 8, 7, dtype=torch.float64)
    assert_close(op(x), torchs(x))
