"""The strided convolution against torch, scipy and its own gradient's coverage."""

import pytest
import torch
import torch.nn.functional as F
from scipy import signal
from torch import nn
from torch.testing import assert_close

from cnnpool.pool import StridedConv2d, Subsample2d, build


def image(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def test_one_channel_is_scipys_correlation_every_second_pixel():
    op, x = StridedConv2d(1, activation="none").double(), image(1, 1, 8, 10)
    kernel, bias = op.conv.weight[0, 0].detach().numpy(), op.conv.bias.item()
    dense = signal.correlate2d(x[0, 0].numpy(), kernel, mode="same") + bias
    assert_close(op(x)[0, 0], torch.from_numpy(dense[::2, ::2].copy()))


@pytest.mark.parametrize("kernel_size", [1, 3, 5])
def test_it_is_a_convolution_of_stride_one_subsampled(kernel_size):
    op, x = StridedConv2d(3, kernel_size=kernel_size).double(), image(2, 3, 9, 8)
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
    x = image(2, 3, 8, 7)
    assert_close(op(x), torchs(x))


@pytest.mark.parametrize("activation", ["none", "relu", "gelu", "silu"])
def test_norm_and_activation_follow_the_convolution(activation):
    op, x = StridedConv2d(3, norm="batch", activation=activation).double(), image(4, 3, 8, 8)
    assert op.conv.bias is None
    normed = F.batch_norm(F.conv2d(x, op.conv.weight, stride=2, padding=1), None, None, training=True)
    expected = normed if activation == "none" else getattr(F, activation)(normed)
    assert_close(op(x), expected)


@pytest.mark.parametrize(
    ("kernel_size", "stride", "reached"), [(1, 2, 1 / 4), (2, 2, 1), (3, 2, 1), (3, 4, 9 / 16)]
)
def test_gradient_reaches_every_input_only_if_the_kernel_is_no_smaller_than_the_stride(
    kernel_size, stride, reached
):
    op = StridedConv2d(1, kernel_size=kernel_size, stride=stride, padding=0, activation="none").double()
    torch.nn.init.ones_(op.conv.weight)
    x = image(1, 1, 1 + 2 * 24, 1 + 2 * 24).requires_grad_()
    op(x).sum().backward()
    assert (x.grad[..., :48, :48] != 0).double().mean().item() == pytest.approx(reached)


def test_padding_default_halves_even_sizes_for_kernels_two_and_three():
    assert StridedConv2d(1, kernel_size=2).output_size(8, 6) == (4, 3)
    assert StridedConv2d(1, kernel_size=3).output_size(8, 6) == (4, 3)
    assert StridedConv2d(1, kernel_size=3, padding=0).output_size(8, 6) == (3, 2)
