"""Padding at the edges, against numpy's padding and torch's convolution."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from cnnpool.pool import build
from cnnpool.pool.edges import EdgeConv2d, pad
from cnnpool.pool.max import EdgeMaxPool2d

NUMPY = {"reflect": "reflect", "replicate": "edge", "circular": "wrap", "zeros": "constant"}


@settings(max_examples=60)
@given(
    mode=st.sampled_from(sorted(NUMPY)),
    size=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    sides=st.tuples(*[st.integers(0, 7)] * 4),
)
def test_padding_is_numpys_on_maps_of_any_size(mode, size, sides):
    x = torch.randn(2, 3, *size, dtype=torch.float64)
    left, right, top, bottom = sides
    expected = np.pad(x.numpy(), ((0, 0), (0, 0), (top, bottom), (left, right)), mode=NUMPY[mode])
    assert_close(pad(x, sides, mode), torch.from_numpy(expected), rtol=0, atol=0)


@pytest.mark.parametrize("mode", sorted(NUMPY))
@pytest.mark.parametrize("stride", [1, 2])
def test_convolution_is_torchs(mode, stride):
    ours = EdgeConv2d(4, 6, (3, 5), stride, mode=mode, groups=2).double()
    theirs = nn.Conv2d(4, 6, (3, 5), stride, padding=(1, 2), groups=2, padding_mode=mode).double()
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(2, 4, 7, 8, dtype=torch.float64)
    assert_close(ours(x), theirs(x))
    assert ours(x).shape[2:] == (-(-7 // stride), 8 // stride)
    # With a padding given, the kernel may be even.
    for name, groups in (("strided", 1), ("depthwise", 4)):
        op = build(name, 4, kernel_size=2, stride=stride, padding=1, padding_mode=mode, activation="none")
        torchs = nn.Conv2d(4, 4, 2, stride, 1, groups=groups, padding_mode=mode, dtype=torch.float64)
        torchs.load_state_dict(op.conv.state_dict())
        assert_close(op.double()(x), torchs(x))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_maxima_see_past_the_edges_what_numpy_puts_there(mode):
    x = torch.randn(2, 4, 8, 7, dtype=torch.float64)
    around = torch.from_numpy(np.pad(x.numpy(), ((0, 0), (0, 0), (1, 1), (1, 1)), mode=NUMPY[mode]))
    for kernel, channels in ((2, 4), (3, 2)):
        op = EdgeMaxPool2d(channels, kernel_size=kernel, stride=2, padding=1, padding_mode=mode)
        expected = F.max_pool2d(around[:, :channels], kernel, 2)
        assert torch.equal(op(x), expected)
        op.keep_winners = True
        assert torch.equal(op(x), expected) and op.winners.shape == expected.shape
