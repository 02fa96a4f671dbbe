"""Convolution with blur in both orders against its parts put together by hand."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from cnnpool.pool import BlurPool2d, ConvBlur2d, blur_pool2d


def image(*shape):
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("filter_size", [2, 3, 4])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_conv_blur_blurs_after_the_activation(filter_size, stride):
    op = ConvBlur2d(3, filter_size=filter_size, stride=stride).double()
    x = image(2, 3, 9, 8)
    dense = F.conv2d(x, op.conv.weight, op.conv.bias, padding=1).relu()
    assert_close(op(x), blur_pool2d(dense, filter_size, stride))
    assert op(x).shape[2:] == op.output_size(9, 8)


@pytest.mark.parametrize("filter_size", [2, 3, 4])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_blur_conv_blurs_first_and_convolves_with_the_stride(filter_size, stride):
    op = ConvBlur2d(3, filter_size=filter_size, stride=stride, order="blur_conv").double()
    x = image(2, 3, 9, 8)
    blurred = blur_pool2d(x, filter_size, 1)
    assert_close(op(x), F.conv2d(blurred, op.conv.weight, op.conv.bias, stride, padding=1).relu())
    assert op(x).shape[2:] == op.output_size(9, 8)


def test_the_two_orders_differ_even_without_an_activation():
    first = ConvBlur2d(3, activation="none").double()
    second = ConvBlur2d(3, activation="none", order="blur_conv").double()
    second.load_state_dict(first.state_dict())
    x = image(2, 3, 12, 12)
    inner = slice(1, -1)
    # Linear and away from the edges the two commute; it is the edges that differ, and any non-linearity.
    assert_close(first(x)[..., inner, inner], second(x)[..., inner, inner])
    assert (first(x) - second(x)).abs().max() > 1e-3
    first.activation = second.activation = torch.nn.ReLU()
    assert (first(x) - second(x))[..., inner, inner].abs().max() > 1e-3


@pytest.mark.parametrize("activation", ["none", "relu", "gelu", "silu"])
def test_norm_and_activation_stand_between_convolution_and_blur(activation):
    op, x = ConvBlur2d(3, norm="batch", activation=activation).double(), image(4, 3, 8, 8)
    assert op.conv.bias is None
    normed = F.batch_norm(F.conv2d(x, op.conv.weight, padding=1), None, None, training=True)
    expected = normed if activation == "none" else getattr(F, activation)(normed)
    assert_close(op(x), BlurPool2d(3)(expected))


@pytest.mark.parametrize("mode", ["zeros", "circular", "reflect", "replicate"])
@pytest.mark.parametrize("size", [(1, 1), (2, 2), (1, 5)])
def test_tiny_maps_pass_in_every_padding_mode(mode, size):
    op = ConvBlur2d(2, kernel_size=5, filter_size=5, padding_mode=mode, conv_padding_mode=mode).double()
    y = op(image(1, 2, *size))
    assert y.shape[2:] == op.output_size(*size) and y.isfinite().all()
