"""ResNet-D's shortcut against timm's, numpy and its own linearity."""

import pytest
import torch
from skimage.measure import block_reduce
from torch.testing import assert_close

from cnnpool.pool import AvgConv2d


def identity(channels, **options):
    op = AvgConv2d(channels, **options).double()
    torch.nn.init.dirac_(op.conv.weight)
    torch.nn.init.zeros_(op.conv.bias)
    return op


@pytest.mark.parametrize("size", [8, 7])
def test_it_is_timms_downsampling_shortcut(size):
    resnet = pytest.importorskip("timm.models.resnet")
    theirs = resnet.downsample_avg(6, 6, 1, stride=2).double()
    ours, x = AvgConv2d(6, norm="batch").double(), torch.randn(3, 6, size, size).double()
    ours.conv.weight.data.copy_(theirs[1].weight.data)
    assert_close(ours(x), theirs(x))


def test_without_mixing_it_is_block_averaging():
    x = torch.randn(2, 3, 8, 12).double()
    expected = block_reduce(x.numpy(), (1, 1, 2, 2), lambda block, axis: block.mean(axis))
    assert_close(identity(3)(x), torch.from_numpy(expected))


def test_last_window_of_an_odd_map_averages_the_pixels_that_exist():
    x = torch.arange(9.0).reshape(1, 1, 3, 3).double()
    assert identity(1)(x).flatten().tolist() == [2.0, 3.5, 6.5, 8.0]


def test_flops_count_the_average_and_the_mix():
    # One output, 4 channels: each a mean of 4 (3 additions, 1 division), then 4 products and 4 sums.
    assert AvgConv2d(4).flops(2, 2) == 4 * 4 + 4 * 8
