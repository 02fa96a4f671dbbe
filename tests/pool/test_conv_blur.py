"""Convolution with blur in both orders against its parts put together by hand."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from cnnpool.pool import BlurPool2d, ConvBlur2d, blur_pool2d


@pytest.mark.parametrize("order", ["conv_blur", "blur_conv"])
def test_it_is_its_two_parts_in_order(order):
    x = torch.randn(2, 3, 9, 8, dtype=torch.float64)
    for filter_size, stride in itertools.product((2, 3, 4), (1, 2, 3)):
        op = ConvBlur2d(3, filter_size=filter_size, stride=stride, order=order).double()
        weights = op.conv.weight, op.conv.bias
        if order == "conv_blur":
            expected = blur_pool2d(F.conv2d(x, *weights, padding=1).relu(), filter_size, stride)
        else:
            expected = F.conv2d(blur_pool2d(x, filter_size, 1), *weights, stride, padding=1).relu()
        assert_close(op(x), expected)
        assert expected.shape[2:] == op.output_size(9, 8)


@pytest.mark.parametrize("activation", ["none", "relu", "gelu", "silu"])
def test_norm_and_activation_stand_between_convolution_and_blur(activation):
    op, x = (
        ConvBlur2d(3, norm="batch", activation=activation).double(),
        torch.randn(4, 3, 8, 8, dtype=torch.float64),
    )
    assert op.conv.bias is None
    normed = F.batch_norm(F.conv2d(x, op.conv.weight, padding=1), None, None, training=True)
    expected = normed if activation == "none" else getattr(F, activation)(normed)
    assert_close(op(x), BlurPool2d(3)(expected))


@pytest.mark.parametrize("mode", ["zeros", "circular", "reflect", "replicate"])
@pytest.mark.parametrize("size", [(1, 1), (2, 2), (1, 5)])
def test_tiny_maps_pass_in_every_padding_mode(mode, size):
    op = ConvBlur2d(2, kernel_size=5, filter_size=5, padding_mode=mode, conv_padding_mode=mode).double()
    y = op(torch.randn(1, 2, *size, dtype=torch.float64))
    assert y.shape[2:] == op.output_size(*size) and y.isfinite().all()
