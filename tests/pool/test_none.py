"""No downsampling: a dilated net is the strided net at every offset."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from cnnpool.pool import NoPool2d, build


def test_hands_its_input_through():
    x = torch.randn(1, 2, 5, 7)
    assert NoPool2d(2)(x) is x


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_asks_later_convolutions_to_dilate_by_the_stride(stride):
    op = NoPool2d(1, stride=stride)
    assert op.dilates == stride and op.stride == (1, 1) and op.output_size(5, 7) == (5, 7)


@pytest.mark.parametrize("size", [12, 13])
@pytest.mark.parametrize("stride", [2, 3])
def test_dense_dilated_output_subsampled_is_the_strided_nets(stride, size):
    x = torch.randn(2, 3, size, size).double()
    first, second = torch.randn(4, 3, 3, 3).double(), torch.randn(5, 4, 3, 3).double()

    def net(name):
        op = build(name, 3, stride=stride)
        hidden = F.conv2d(op(x), first, padding=op.dilates, dilation=op.dilates).relu()
        return F.conv2d(hidden, second, padding=op.dilates, dilation=op.dilates)

    assert_close(net("none")[..., ::stride, ::stride], net("subsample"))
