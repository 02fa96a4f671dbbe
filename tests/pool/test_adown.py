"""ADown's average and its two branches against torch, and a case worked by hand."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from cnnpool.pool import AdownBlock2d


def formula(op, x, stride=2):
    """Both branches of the default edges by torch's functions."""
    mean = F.avg_pool2d(x, 2, 1)
    first = x.shape[1] - x.shape[1] // 2
    padding = tuple(k // 2 for k in op.kernel_size)
    learnt = F.conv2d(mean[:, :first], op.conv.weight, op.conv.bias, stride, padding)
    maxima = F.max_pool2d(mean[:, first:], op.kernel_size, stride, padding)
    return torch.cat([learnt, F.conv2d(maxima, op.mix.weight, op.mix.bias)], 1)


def test_four_by_four_worked_by_hand():
    op, x = AdownBlock2d(2, activation="none"), torch.arange(16.0).reshape(1, 1, 4, 4).expand(1, 2, 4, 4)
    torch.nn.init.ones_(op.conv.weight)
    torch.nn.init.constant_(op.mix.weight, 2.0)
    torch.nn.init.zeros_(op.conv.bias)
    torch.nn.init.ones_(op.mix.bias)
    # Means 2.5 3.5 4.5 / 6.5 7.5 8.5 / 10.5 11.5 12.5; windows around every second of them.
    assert op(x)[0, 0].tolist() == [[20.0, 24.0], [36.0, 40.0]]
    assert op(x)[0, 1].tolist() == [[2 * 7.5 + 1, 2 * 8.5 + 1], [2 * 11.5 + 1, 2 * 12.5 + 1]]


@settings(max_examples=40)
@given(
    size=st.tuples(st.integers(2, 9), st.integers(2, 9)),
    channels=st.integers(2, 5),
    kernel=st.sampled_from([1, 3, 5, (3, 5)]),
    stride=st.integers(1, 3),
)
def test_it_is_the_formula_by_torchs_functions(size, channels, kernel, stride):
    op = AdownBlock2d(channels, kernel_size=kernel, stride=stride, activation="none").double()
    x = torch.randn(2, channels, *size, dtype=torch.float64)
    assert_close(op(x), formula(op, x, stride))
    assert op(x).shape[2:] == op.output_size(*size)


def test_one_channel_is_convolved():
    op, x = (
        AdownBlock2d(1, norm="batch", activation="relu").double(),
        torch.randn(2, 1, 8, 8, dtype=torch.float64),
    )
    convolved = F.conv2d(F.avg_pool2d(x, 2, 1), op.conv.weight, stride=2, padding=1)
    assert_close(op(x), F.batch_norm(convolved, None, None, training=True).relu())


def test_a_map_of_one_row_is_refused_and_even_kernels_too():
    with pytest.raises(ValueError, match="leaves nothing of a 1x8 map: with padding_mode=zeros it needs"):
        AdownBlock2d(4)(torch.zeros(1, 4, 1, 8))
    assert AdownBlock2d(4, padding_mode="reflect")(torch.zeros(1, 4, 1, 8)).shape == (1, 4, 1, 4)
    with pytest.raises(ValueError, match="kernel_size must be a whole number from 1 to 255, odd"):
        AdownBlock2d(4, kernel_size=2)
