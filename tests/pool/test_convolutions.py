"""Operators with a learnt convolution, and those that only take pixels, against torch and timm."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from random_maps import maps
from torch.testing import assert_close
from torchvision.models.swin_transformer import PatchMerging

from cnnpool import pool


def normed(x, conv, **options):
    return F.batch_norm(F.conv2d(x, conv.weight, **options), None, None, training=True)


@pytest.mark.parametrize("kernel_size", [1, 3, 5])
def test_strided_is_a_convolution_of_stride_one_subsampled(kernel_size, make):
    op, x = make("strided", kernel_size=kernel_size), maps(2, 3, 9, 8)
    dense = F.conv2d(x, op.conv.weight, op.conv.bias, padding=kernel_size // 2).relu()
    assert_close(op(x), dense[..., ::2, ::2])
    assert_close(op(x), make("subsample")(dense))


@pytest.mark.parametrize("size", [8, 7])
def test_avg_conv_is_timms_downsampling_shortcut(size):
    resnet = pytest.importorskip("timm.models.resnet")
    theirs = resnet.downsample_avg(6, 6, 1, stride=2).double()
    ours, x = pool.AvgConv2d(6, norm="batch").double(), maps(3, 6, size, size)
    ours.conv.weight.data.copy_(theirs[1].weight.data)
    assert_close(ours(x), theirs(x))
    # One output, 4 channels: each a mean of 4 (3 additions, 1 division), then 4 products and 4 sums.
    assert pool.AvgConv2d(4).flops(2, 2) == 4 * 4 + 4 * 8


@pytest.mark.parametrize("order", ["conv_blur", "blur_conv"])
def test_conv_blur_is_its_two_parts_in_order(order):
    x = maps(2, 3, 9, 8)
    for filter_size, stride in itertools.product((2, 3, 4), (1, 2, 3)):
        op = pool.ConvBlur2d(3, filter_size=filter_size, stride=stride, order=order).double()
        weights = op.conv.weight, op.conv.bias
        if order == "conv_blur":
            expected = pool.blur_pool2d(F.conv2d(x, *weights, padding=1).relu(), filter_size, stride)
        else:
            expected = F.conv2d(pool.blur_pool2d(x, filter_size, 1), *weights, stride, padding=1).relu()
        assert_close(op(x), expected)
        assert expected.shape[2:] == op.output_size(9, 8)


@pytest.mark.parametrize(("kernel_size", "padding"), [(2, 0), (3, 1)])
@pytest.mark.parametrize("conv_size", [1, 3, 5])
def test_conv_pool_is_a_dense_convolution_then_max_pooling(conv_size, kernel_size, padding, make):
    op, x = make("conv_pool", conv_size=conv_size, kernel_size=kernel_size), maps(2, 3, 9, 8)
    dense = F.conv2d(x, op.conv.weight, op.conv.bias, padding=conv_size // 2).relu()
    assert_close(op(x), F.max_pool2d(dense, kernel_size, 2, padding))


def test_norm_and_activation_stand_between_the_convolution_and_the_pooling_or_touch_its_channels_alone(make):
    x, options = maps(3, 4, 8, 8), {"norm": "batch", "activation": "silu", "training": True}
    op = make("conv_blur", 4, **options)
    assert op.conv.bias is None
    assert_close(op(x), pool.blur_pool2d(F.silu(normed(x, op.conv, padding=1))))
    op = make("conv_pool", 4, **options)
    assert_close(op(x), F.max_pool2d(F.silu(normed(x, op.conv, padding=1)), 3, 2, 1))
    op = make("reduction", 4, **options)
    learnt = F.silu(normed(x, op.conv, stride=2, padding=1))
    assert_close(op(x), torch.cat([F.max_pool2d(x[:, :2], 3, 2, 1), learnt], 1))


@pytest.mark.parametrize(("channels", "pooled"), [(4, 2), (5, 2), (2, 1), (1, 0)])
def test_reduction_pools_half_of_the_channels_and_convolves_all_to_the_rest(channels, pooled, make):
    op, x = make("reduction", channels), maps(2, channels, 9, 8)
    learnt = F.conv2d(x, op.conv.weight, op.conv.bias, stride=2, padding=1).relu()
    assert learnt.shape[1] == channels - pooled
    maxima = [F.max_pool2d(x[:, :pooled], 3, 2, 1)] if pooled else []
    assert_close(op(x), torch.cat([*maxima, learnt], 1))


@pytest.mark.parametrize("stride", [2, 3])
def test_patchify_is_pixel_unshuffle_and_a_1x1_convolution(stride, make):
    op, x = make("patchify", stride=stride), maps(2, 3, 12, 6)
    # Unshuffled channels come as (c, i, j), which is the order of a flattened kernel.
    mixed = F.conv2d(F.pixel_unshuffle(x, stride), op.conv.weight.reshape(3, -1, 1, 1), op.conv.bias)
    assert_close(op(x), mixed)
    # Rows and columns that do not fill a patch are dropped.
    assert_close(op(F.pad(x, (0, stride - 1, 0, 1))), mixed)


def test_layer_norm_before_patches_is_convnexts_downsampling():
    layers = pytest.importorskip("timm.layers")
    op, x = pool.PatchConv2d(6, norm="layer").double(), maps(2, 6, 8, 8)
    norm = layers.LayerNorm2d(6, eps=1e-5).double()
    with torch.no_grad():
        for parameter, same in zip(op.before.parameters(), norm.parameters(), strict=True):
            same.copy_(parameter.normal_())
    assert_close(op(x), op.conv(norm(x)))


@pytest.mark.parametrize("size", [12, 13])
@pytest.mark.parametrize("stride", [2, 3])
def test_a_dense_dilated_output_subsampled_is_the_strided_nets(stride, size):
    x, first, second = maps(2, 3, size, size), maps(4, 3, 3, 3), maps(5, 4, 3, 3)

    def net(name):
        op = pool.build(name, 3, stride=stride)
        hidden = F.conv2d(op(x), first, padding=op.dilates, dilation=op.dilates).relu()
        return F.conv2d(hidden, second, padding=op.dilates, dilation=op.dilates)

    assert_close(net("none")[..., ::stride, ::stride], net("subsample"))


def test_none_hands_its_input_through_and_asks_later_convolutions_to_dilate():
    x, op = torch.randn(1, 2, 5, 7), pool.NoPool2d(2, stride=3)
    assert op(x) is x and op.dilates == 3 and op.stride == (1, 1) and op.output_size(5, 7) == (5, 7)


@settings(max_examples=40)
@given(
    size=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.integers(1, 4),
    channels=st.integers(1, 3),
    layout=st.sampled_from([torch.contiguous_format, torch.channels_last]),
)
def test_it_is_torchs_pixel_unshuffle_in_either_memory_format(size, stride, channels, layout):
    x = maps(2, channels, stride * size[0], stride * size[1]).contiguous(memory_format=layout)
    y = pool.pixel_unshuffle2d(x, stride)
    assert torch.equal(y, F.pixel_unshuffle(x, stride))
    assert torch.equal(F.pixel_shuffle(y, stride), x)


@pytest.mark.parametrize("stride", [2, 3, (2, 3)])
def test_unshuffling_is_a_convolution_of_kernel_equal_to_stride_and_larger_ones_see_the_next_cells(stride):
    op, x = pool.UnshuffleConv2d(3, stride=stride).double(), maps(2, 3, 6, 12)
    weight = op.conv.weight.reshape(3, 3, *op.stride)
    assert_close(op(x), F.conv2d(x, weight, op.conv.bias, op.stride), rtol=1e-12, atol=1e-12)
    op = pool.UnshuffleConv2d(3, kernel_size=3).double()
    assert_close(op(x), F.conv2d(F.pixel_unshuffle(x, 2), op.conv.weight, op.conv.bias, padding=1))


def test_ragged_cells_are_filled_with_zeros_or_refused_on_request_with_their_numbers():
    op = pool.UnshuffleConv2d(3).double()
    for size in ((1, 1), (1, 6), (5, 4), (7, 9)):
        x = maps(2, 3, *size)
        assert torch.equal(op(x), op(F.pad(x, (0, size[1] % 2, 0, size[0] % 2))))
        assert op(x).shape[2:] == op.output_size(*size) == tuple(-(-n // 2) for n in size)
    op = pool.UnshuffleConv2d(1, stride=(2, 3), ragged="refuse")
    assert op.output_size(4, 6) == op(torch.zeros(1, 1, 4, 6)).shape[2:]
    for size in [(7, 6), (4, 8)]:
        message = rf"H and W must be multiples of stride=\(2, 3\), got a {size[0]}x{size[1]} map"
        with pytest.raises(ValueError, match=message):
            op(torch.zeros(1, 1, *size))
        with pytest.raises(ValueError, match=message):
            op.output_size(*size)
        with pytest.raises(ValueError, match=message):
            pool.pixel_unshuffle2d(torch.zeros(1, 1, *size), (2, 3))


@pytest.mark.parametrize("size", [(6, 8), (7, 4), (1, 1)])
def test_with_layer_normalisation_it_is_torchvisions_patch_merging(size):
    op, merging = pool.UnshuffleConv2d(3, order="cell", norm="layer").double(), PatchMerging(3).double()
    torch.nn.init.normal_(merging.norm.weight)
    torch.nn.init.normal_(merging.norm.bias)
    op.before.load_state_dict(merging.norm.state_dict())
    # Patch merging doubles the channels; each of them has a row of weights of its own.
    op.conv.weight.data = merging.reduction.weight[:3, :, None, None]
    x = torch.randn(2, 3, *size, dtype=torch.float64)
    assert op.conv.bias is None
    assert_close(op(x), merging(x.movedim(1, -1)).movedim(-1, 1)[:, :3])
