"""Convolution then max pooling, against torch."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from cnnpool.pool import ConvPool2d


@pytest.mark.parametrize(("kernel_size", "padding"), [(2, 0), (3, 1)])
@pytest.mark.parametrize("conv_size", [1, 3, 5])
def test_it_is_a_dense_convolution_then_max_pooling(conv_size, kernel_size, padding):
    op, x = ConvPool2d(3, conv_size=conv_size, kernel_size=kernel_size).double(), torch.randn(2, 3, 9, 8)
    dense = F.conv2d(x.double(), op.conv.weight, op.conv.bias, padding=conv_size // 2).relu()
    assert_close(op(x.double()), F.max_pool2d(dense, kernel_size, 2, padding))


def test_gradients_are_those_of_torch():
    op, x = ConvPool2d(3, norm="batch", activation="silu").double(), torch.randn(2, 3, 8, 8).double()
    x.requires_grad_()
    normed = F.batch_norm(F.conv2d(x, op.conv.weight, padding=1), None, None, training=True)
    expected = F.max_pool2d(F.silu(normed), 3, 2, 1)
    inputs, upstream = (x, op.conv.weight), torch.randn_like(expected)
    torch_grads = torch.autograd.grad(expected, inputs, upstream)
    assert_close(torch.autograd.grad(op(x), inputs, upstream), torch_grads)
