"""Adaptive blur pooling against loops, fixed filters and its own limits."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from cnnpool.pool import AdaptiveBlurPool2d, adaptive_blur_pool2d
from cnnpool.pool.edges import source

MODES = ["reflect", "replicate", "circular", "zeros"]


def slow(x, logits, m, stride, mode):
    """One output at a time."""
    n, c, height, width = x.shape
    groups = logits.shape[1] // (m * m)
    y = torch.zeros(n, c, *logits.shape[2:], dtype=x.dtype)
    for sample in range(n):
        for channel in range(c):
            group = channel // (c // groups)
            for u in range(y.shape[2]):
                for v in range(y.shape[3]):
                    filters = logits[sample, group * m * m : (group + 1) * m * m, u, v].softmax(0)
                    for place, weight in enumerate(filters):
                        row = source(u * stride + place // m - m // 2, height, mode)
                        column = source(v * stride + place % m - m // 2, width, mode)
                        if row is not None and column is not None:
                            y[sample, channel, u, v] += weight * x[sample, channel, row, column]
    return y


def test_four_by_four_worked_by_hand():
    x = torch.arange(16.0, dtype=torch.float64).reshape(1, 1, 4, 4)
    logits = torch.full((1, 9, 2, 2), -1e9, dtype=torch.float64)
    logits[0, 4, 0, 0] = 0  # the pixel itself: x[0, 0]
    logits[0, 5, 0, 1] = logits[0, 3, 0, 1] = 0  # its neighbours to the left and right: x[0, 1], x[0, 3]
    logits[0, 1, 1, 0], logits[0, 7, 1, 0] = math.log(3), 0  # above thrice, below once: x[1, 0], x[3, 0]
    logits[0, 0, 1, 1] = 0  # above on the left: x[1, 1]
    expected = torch.tensor([0, (1 + 3) / 2, (3 * 4 + 12) / 4, 5], dtype=torch.float64)
    assert_close(adaptive_blur_pool2d(x, logits).flatten(), expected)


@settings(max_examples=40)
@given(
    size=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    m=st.sampled_from([1, 3, 5]),
    stride=st.integers(1, 3),
    groups=st.sampled_from([1, 2, 4]),
    mode=st.sampled_from(MODES),
)
def test_it_is_the_sum_of_each_window_by_its_own_filter(size, m, stride, groups, mode):
    x = torch.randn(2, 4, *size, dtype=torch.float64)
    logits = torch.randn(2, groups * m * m, *(-(-length // stride) for length in size), dtype=torch.float64)
    assert_close(
        adaptive_blur_pool2d(x, logits, m, stride, mode),
        slow(x, logits, m, stride, mode),
        rtol=1e-12,
        atol=1e-12,
    )


def test_default_groups_are_the_papers_eight_or_what_divides_the_channels():
    assert [AdaptiveBlurPool2d(c).groups for c in (1, 3, 6, 8, 12, 64)] == [1, 1, 2, 8, 4, 8]


@pytest.mark.parametrize("norm", ["none", "batch"])
@pytest.mark.parametrize("mode", MODES)
def test_constant_map_stays_constant_whatever_was_learnt_unless_zeros_stand_around_it(norm, mode):
    op = AdaptiveBlurPool2d(2, padding_mode=mode, norm=norm).double()
    torch.nn.init.normal_(op.conv.weight)
    y = op(torch.full((3, 2, 7, 6), 2.5, dtype=torch.float64))
    assert torch.allclose(y, torch.full_like(y, 2.5)) == (op.gain == 1.0) == (mode != "zeros")


def test_batch_norm_normalises_the_logits_of_the_kept_pixels():
    op, x = AdaptiveBlurPool2d(2, norm="batch").double(), torch.randn(4, 2, 6, 6, dtype=torch.float64)
    assert op.conv.bias is None
    torch.nn.init.normal_(op.conv.weight)
    mirrored = F.pad(x, (1, 1, 1, 1), mode="reflect")
    logits = F.batch_norm(F.conv2d(mirrored, op.conv.weight, stride=2), None, None, training=True)
    assert_close(op(x), adaptive_blur_pool2d(x, logits))


def test_flops_are_the_convolutions_the_softmaxes_and_the_sums():
    # Per output pixel: 2*9*18 weights twice, 18 filter taps thrice, 9 products and sums for 2 channels.
    op = AdaptiveBlurPool2d(2, groups=2)
    assert op.flops(8, 8) == 16 * (2 * 2 * 9 * 18 + 3 * 18 + 2 * 2 * 9)
