"""Max-blur pooling against kornia, its two halves and a hand-worked map."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from cnnpool.pool import BlurPool2d, MaxBlurPool2d, blur_pool2d, max_blur_pool2d


def clipped_maximum(x, k, across=None):
    """Maximum of rows i - (k - 1)//2 .. i + k//2 that exist, and columns alike, one window at a time."""
    y, m = torch.empty_like(x), across or k
    for i in range(x.shape[2]):
        for j in range(x.shape[3]):
            rows = slice(max(0, i - (k - 1) // 2), i + k // 2 + 1)
            columns = slice(max(0, j - (m - 1) // 2), j + m // 2 + 1)
            y[..., i, j] = x[..., rows, columns].amax((2, 3))
    return y


@settings(max_examples=60)
@given(
    size=st.tuples(st.integers(1, 8), st.integers(1, 8)),
    kernel_size=st.integers(1, 5),
    filter_size=st.integers(1, 5),
    stride=st.integers(1, 3),
)
def test_it_is_the_clipped_dense_maximum_blurred(size, kernel_size, filter_size, stride):
    x = torch.randn(2, 2, *size, dtype=torch.float64)
    y = max_blur_pool2d(x, kernel_size, filter_size, stride)
    assert torch.equal(y, blur_pool2d(clipped_maximum(x, kernel_size), filter_size, stride))
    options = {"kernel_size": kernel_size, "filter_size": filter_size, "stride": stride}
    op = MaxBlurPool2d(2, **options)
    assert torch.equal(op(x), y) and y.shape[2:] == op.output_size(*size)


@pytest.mark.parametrize("ties", ["first", "last", "split"])
def test_ties_decide_who_gets_the_gradient_of_a_constant_map(ties):
    x = torch.zeros(1, 1, 6, 6, dtype=torch.float64, requires_grad=True)
    max_blur_pool2d(x, 3, 1, 1, ties=ties).sum().backward()
    assert x.grad.sum() == 36
    corners = {"first": (0, 0), "last": (5, 5)}
    if ties == "split":
        assert_close(x.grad, x.grad.flip(2, 3))
    else:
        # The corner wins its own window and those of its three neighbours.
        assert x.grad[0, 0][corners[ties]] == 4


def test_gain_and_flops_are_those_of_the_halves():
    assert MaxBlurPool2d(2).gain == 1 and MaxBlurPool2d(2, padding_mode="zeros").gain is None
    assert MaxBlurPool2d(2).flops(8, 8) == 2 * 64 * 3 + BlurPool2d(2).flops(8, 8)


@pytest.mark.parametrize("kernel", [(2, 3), (3, 2), (1, 4), (4, 1)])
def test_windows_need_not_be_square(kernel):
    x = torch.randn(2, 3, 6, 7, dtype=torch.float64)
    assert torch.equal(max_blur_pool2d(x, kernel, 1, 1), clipped_maximum(x, *kernel))
