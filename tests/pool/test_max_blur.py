"""Max-blur pooling against kornia, its two halves and a hand-worked map."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from cnnpool.pool import BlurPool2d, MaxBlurPool2d, MaxPool2d, blur_pool2d, max_blur_pool2d


def image(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def clipped_maximum(x, k, across=None):
    """Maximum of rows i - (k - 1)//2 .. i + k//2 that exist, and columns alike, one window at a time."""
    y, m = torch.empty_like(x), across or k
    for i in range(x.shape[2]):
        for j in range(x.shape[3]):
            rows = slice(max(0, i - (k - 1) // 2), i + k // 2 + 1)
            columns = slice(max(0, j - (m - 1) // 2), j + m // 2 + 1)
            y[..., i, j] = x[..., rows, columns].amax((2, 3))
    return y


def test_four_by_four_worked_by_hand():
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    # Dense 2x2 maximum of row i, column j: 4 min(i + 1, 3) + min(j + 1, 3). Along the columns 1 2 3 3:
    # mirrored edge (2 + 2*1 + 2)/4 = 3/2, inside (2 + 2*3 + 3)/4 = 11/4.
    column, row = torch.tensor([1.5, 2.75]), 4 * torch.tensor([1.5, 2.75])
    assert_close(max_blur_pool2d(x)[0, 0], row[:, None] + column, rtol=0, atol=0)


@settings(max_examples=60)
@given(
    size=st.tuples(st.integers(1, 8), st.integers(1, 8)),
    kernel_size=st.integers(1, 5),
    filter_size=st.integers(1, 5),
    stride=st.integers(1, 3),
)
def test_it_is_the_clipped_dense_maximum_blurred(size, kernel_size, filter_size, stride):
    x = image(2, 2, *size)
    y = max_blur_pool2d(x, kernel_size, filter_size, stride)
    assert torch.equal(y, blur_pool2d(clipped_maximum(x, kernel_size), filter_size, stride))
    options = {"kernel_size": kernel_size, "filter_size": filter_size, "stride": stride}
    op = MaxBlurPool2d(2, **options)
    assert torch.equal(op(x), y) and y.shape[2:] == op.output_size(*size)


def test_share_of_inputs_with_gradient_is_the_one_counted_by_hand():
    x = image(64, 8, 32, 32).requires_grad_()
    shares = []
    for op in (MaxPool2d(8), MaxBlurPool2d(8)):
        y = op(x)
        (grad,) = torch.autograd.grad(y, x, torch.rand_like(y) + 0.5)
        shares.append((grad[..., 2:-2, 2:-2] != 0).double().mean().item())
    # An inner input lies in four dense windows, and is the largest of n cells with probability 1/n. By
    # inclusion and exclusion over unions of one, two, three and all four of the windows:
    wins_any = 4 * 1 / 4 - (4 * 1 / 6 + 2 * 1 / 7) + 4 * 1 / 8 - 1 / 9
    assert shares == [0.25, pytest.approx(wins_any, abs=0.005)]


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
    x = image(2, 3, 6, 7)
    assert torch.equal(max_blur_pool2d(x, kernel, 1, 1), clipped_maximum(x, *kernel))
