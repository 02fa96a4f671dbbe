"""Blur and max-blur pooling against scipy, their halves and clipped maxima."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_maps import clipped_maximum
from scipy import ndimage
from torch.testing import assert_close

from cnnpool.pool import BlurPool2d, MaxBlurPool2d, blur_pool2d, max_blur_pool2d
from cnnpool.pool.autograd.separable import taps

SCIPY = {"reflect": "mirror", "replicate": "nearest", "circular": "wrap", "zeros": "constant"}
MODES = sorted(SCIPY)
sizes = st.tuples(st.integers(1, 9), st.integers(1, 9))
filters = st.tuples(st.integers(1, 7), st.integers(1, 7))
strides = st.tuples(st.integers(1, 3), st.integers(1, 3))


def by_scipy(x, filter_size, stride, mode):
    y = x.numpy()
    for axis, m in zip((2, 3), filter_size, strict=True):
        y = ndimage.correlate1d(y, taps(m), axis, mode=SCIPY[mode], origin=(m - 1) // 2 - m // 2)
    return torch.from_numpy(y[..., :: stride[0], :: stride[1]].copy())


@settings(max_examples=150)
@given(size=sizes, filter_size=filters, stride=strides, mode=st.sampled_from(MODES))
def test_it_is_scipys_correlation_subsampled_on_maps_of_any_size(size, filter_size, stride, mode):
    x = torch.randn(2, 2, *size, dtype=torch.float64, requires_grad=True)
    y = blur_pool2d(x, filter_size, stride, mode)
    assert_close(y, by_scipy(x.detach(), filter_size, stride, mode), rtol=0, atol=4e-15)
    # The gradient is the adjoint.
    upstream = torch.randn_like(y)
    (grad,) = torch.autograd.grad(y, x, upstream)
    assert_close((y * upstream).sum(), (x * grad).sum(), rtol=1e-12, atol=1e-12)
    assert y.shape[2:] == BlurPool2d(2, filter_size=filter_size, stride=stride).output_size(*size)


def test_constant_map_stays_constant_unless_zeros_stand_around_it():
    for mode, filter_size in itertools.product(MODES, range(1, 8)):
        op = BlurPool2d(1, filter_size=filter_size, padding_mode=mode)
        y = op(torch.full((1, 1, 1, 5), 3.0))
        stays = mode != "zeros" or filter_size == 1
        assert (op.gain == 1) == stays == torch.allclose(y, torch.full_like(y, 3.0))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_the_exact_result_rounded_once(dtype):
    x = torch.randint(-99, 100, (2, 3, 9, 12)).to(dtype).requires_grad_()
    y = blur_pool2d(x, 5)
    exact = x.detach().double().requires_grad_()
    expected = blur_pool2d(exact, 5)
    assert torch.equal(y, expected.to(dtype))
    upstream = torch.randint(-99, 100, y.shape).to(dtype)
    (grad,) = torch.autograd.grad(y, x, upstream)
    assert torch.equal(grad, torch.autograd.grad(expected, exact, upstream.double())[0].to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("filter_size", [2, 3])
def test_circular_blur_commutes_with_shifts_by_the_stride_to_the_last_bit(dtype, filter_size):
    x = torch.randn(2, 3, 10, 22, dtype=dtype)
    y = blur_pool2d(x, filter_size, 2, "circular")
    for rows in range(5):
        for columns in range(11):
            shifted = blur_pool2d(x.roll((2 * rows, 2 * columns), (2, 3)), filter_size, 2, "circular")
            assert torch.equal(shifted, y.roll((rows, columns), (2, 3)))


def test_nan_and_infinity_reach_the_windows_that_cover_them_alone():
    for value in (torch.nan, torch.inf):
        x = torch.zeros(1, 1, 12, 12)
        x[..., 5, 6] = value
        touched = ~torch.isfinite(blur_pool2d(x, 3))
        assert touched.nonzero()[:, 2:].tolist() == [[2, 3], [3, 3]]


def test_flops_are_those_of_the_two_passes():
    # Rows: 4 x 8 outputs of 3 products and 2 sums; columns: 4 x 4 outputs.
    assert BlurPool2d(2).flops(8, 8) == 2 * (4 * 8 * 5 + 4 * 4 * 5)
    assert BlurPool2d(2, filter_size=1).flops(8, 8) == 0


@settings(max_examples=60)
@given(
    size=st.tuples(st.integers(1, 8), st.integers(1, 8)),
    kernel_size=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    filter_size=st.integers(1, 5),
    stride=st.integers(1, 3),
)
def test_it_is_the_clipped_dense_maximum_blurred(size, kernel_size, filter_size, stride):
    x = torch.randn(2, 2, *size, dtype=torch.float64)
    y = max_blur_pool2d(x, kernel_size, filter_size, stride)
    assert torch.equal(y, blur_pool2d(clipped_maximum(x, *kernel_size), filter_size, stride))
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
