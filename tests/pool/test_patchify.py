"""The patch convolution against pixel-unshuffle and a 1x1 convolution, and timm's normalisation."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from cnnpool.pool import PatchConv2d


@pytest.mark.parametrize("stride", [2, 3])
def test_it_is_pixel_unshuffle_and_a_1x1_convolution(stride):
    op, x = PatchConv2d(3, stride=stride).double(), torch.randn(2, 3, 12, 6).double()
    # Unshuffled channels come as (c, i, j), which is the order of a flattened kernel.
    mixed = F.conv2d(F.pixel_unshuffle(x, stride), op.conv.weight.reshape(3, -1, 1, 1), op.conv.bias)
    assert_close(op(x), mixed)


def test_rows_that_do_not_fill_a_patch_are_dropped():
    op, x = PatchConv2d(2, stride=(3, 2)), torch.randn(1, 2, 8, 7)
    assert_close(op(x), op(x[..., :6, :6]))


def test_layer_norm_before_it_is_convnexts_downsampling():
    layers = pytest.importorskip("timm.layers")
    op, x = PatchConv2d(6, norm="layer").double(), torch.randn(2, 6, 8, 8).double()
    norm = layers.LayerNorm2d(6, eps=1e-5).double()
    with torch.no_grad():
        for parameter, same in zip(op.before.parameters(), norm.parameters(), strict=True):
            same.copy_(parameter.normal_())
    assert_close(op(x), op.conv(norm(x)))
