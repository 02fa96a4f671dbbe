"""Blur pooling against scipy, timm, kornia, its own transpose and a hand-worked map."""

import kornia
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage
from timm.layers import BlurPool2d as TimmBlurPool2d
from torch.autograd import gradcheck, gradgradcheck
from torch.testing import assert_close

from cnnpool.pool import AvgPool2d, BlurPool2d, Subsample2d, blur_pool2d
from cnnpool.pool.autograd.linear_maps import taps

SCIPY = {"reflect": "mirror", "replicate": "nearest", "circular": "wrap", "zeros": "constant"}
MODES = sorted(SCIPY)
sizes = st.tuples(st.integers(1, 9), st.integers(1, 9))
filters = st.tuples(st.integers(1, 7), st.integers(1, 7))
strides = st.tuples(st.integers(1, 3), st.integers(1, 3))


def image(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def by_scipy(x, filter_size, stride, mode):
    y = x.numpy()
    for axis, m in zip((2, 3), filter_size, strict=True):
        y = ndimage.correlate1d(y, taps(m), axis, mode=SCIPY[mode], origin=(m - 1) // 2 - m // 2)
    return torch.from_numpy(y[..., :: stride[0], :: stride[1]].copy())


def test_four_by_four_worked_by_hand():
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    # Along 0 1 2 3: (1 + 2*0 + 1)/4 = 1/2 at the mirrored edge, (1 + 2*2 + 3)/4 = 2 inside; rows count four.
    assert blur_pool2d(x).flatten().tolist() == [2.5, 4, 8.5, 10]
    assert blur_pool2d(x, 2).flatten().tolist() == [2.5, 4.5, 10.5, 12.5]
    assert blur_pool2d(torch.ones(1, 1, 4, 4), padding_mode="zeros").flatten().tolist() == [
        9 / 16,
        3 / 4,
        3 / 4,
        1,
    ]


def test_taps_are_pascals_rows_over_their_sums():
    rows = {1: [1], 2: [1, 1], 3: [1, 2, 1], 4: [1, 3, 3, 1], 7: [1, 6, 15, 20, 15, 6, 1]}
    for m, row in rows.items():
        assert taps(m) == [count / sum(row) for count in row]


@settings(max_examples=150)
@given(size=sizes, filter_size=filters, stride=strides, mode=st.sampled_from(MODES))
def test_it_is_scipys_correlation_subsampled_on_maps_of_any_size(size, filter_size, stride, mode):
    x = image(2, 2, *size)
    y = blur_pool2d(x, filter_size, stride, mode)
    assert_close(y, by_scipy(x, filter_size, stride, mode), rtol=0, atol=4e-15)
    assert y.shape[2:] == BlurPool2d(2, filter_size=filter_size, stride=stride).output_size(*size)


@pytest.mark.parametrize("filter_size", [3, 5, 7])
@pytest.mark.parametrize("mode", ["reflect", "circular"])
def test_odd_filters_are_timms(filter_size, mode):
    theirs = TimmBlurPool2d(3, filter_size, 2, pad_mode=mode).double()
    for size in [(16, 16), (9, 12)]:
        x = image(2, 3, *size).requires_grad_()
        ours, expected = blur_pool2d(x, filter_size, 2, mode), theirs(x)
        assert_close(ours, expected, rtol=0, atol=1e-15)
        upstream = torch.randn_like(ours)
        gradients = (torch.autograd.grad(y, x, upstream)[0] for y in (ours, expected))
        assert_close(*gradients, rtol=0, atol=2e-15)


@pytest.mark.parametrize("filter_size", [3, 5, 7])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_odd_filters_with_zeros_are_kornias(filter_size, stride):
    x = image(2, 3, 12, 9)
    expected = kornia.filters.blur_pool2d(x, filter_size, stride)
    assert_close(blur_pool2d(x, filter_size, stride, "zeros"), expected, rtol=0, atol=1e-15)


def test_one_tap_subsamples_and_two_taps_average():
    x = image(2, 3, 8, 6)
    assert torch.equal(blur_pool2d(x, 1), Subsample2d(3)(x))
    assert_close(blur_pool2d(x, 2), AvgPool2d(3)(x))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("filter_size", range(1, 8))
def test_constant_map_stays_constant_unless_zeros_stand_around_it(mode, filter_size):
    op = BlurPool2d(1, filter_size=filter_size, padding_mode=mode)
    stays = mode != "zeros" or filter_size == 1
    assert op.gain == (1.0 if stays else None)
    maps = [op(torch.full((1, 1, *size), 3.0)) for size in [(1, 1), (2, 2), (1, 5), (8, 7)]]
    assert all(((y - 3).abs() <= 1e-6).all() for y in maps) == stays


@settings(max_examples=100)
@given(size=sizes, filter_size=filters, stride=strides, mode=st.sampled_from(MODES))
def test_gradient_is_the_adjoint(size, filter_size, stride, mode):
    x = image(2, 3, *size).requires_grad_()
    y = blur_pool2d(x, filter_size, stride, mode)
    upstream = torch.randn_like(y)
    (grad,) = torch.autograd.grad(y, x, upstream)
    assert_close((y * upstream).sum(), (x * grad).sum(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_gradients_are_the_numerical_ones_in_both_modes_and_twice(mode):
    def call(x):
        return blur_pool2d(x, (4, 5), (2, 3), mode)

    x = image(2, 2, 5, 4).requires_grad_()
    assert gradcheck(call, x, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(call, x, check_fwd_over_rev=True, gen_non_contig_grad_outputs=True)


def test_every_inner_input_gets_the_same_total_gradient():
    for filter_size in (2, 3, 5, 7):
        x = image(1, 1, 24, 24).requires_grad_()
        blur_pool2d(x, filter_size).sum().backward()
        assert_close(x.grad[..., 8:16, 8:16], torch.full((1, 1, 8, 8), 0.25, dtype=torch.float64))


def test_nothing_is_kept_for_the_backward_pass():
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        y = blur_pool2d(torch.randn(2, 3, 8, 8, requires_grad=True))
    assert kept == []
    assert not any(isinstance(value, torch.Tensor) for value in vars(y.grad_fn).values())


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


def test_memory_format_is_kept_in_both_directions():
    last = image(2, 3, 6, 9).contiguous(memory_format=torch.channels_last).requires_grad_()
    y = blur_pool2d(last, 4)
    (grad,) = torch.autograd.grad(y, last, torch.randn(y.shape, dtype=y.dtype))
    assert y.is_contiguous(memory_format=torch.channels_last)
    assert grad.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("filter_size", [2, 3])
def test_circular_blur_commutes_with_shifts_by_the_stride_to_the_last_bit(dtype, filter_size):
    x = torch.randn(2, 3, 10, 22, dtype=dtype)
    y = blur_pool2d(x, filter_size, 2, "circular")
    for rows in range(5):
        for columns in range(11):
            shifted = blur_pool2d(x.roll((2 * rows, 2 * columns), (2, 3)), filter_size, 2, "circular")
            assert torch.equal(shifted, y.roll((rows, columns), (2, 3)))


def test_wider_filters_change_less_under_a_shift_by_one_pixel():
    x = image(64, 8, 16, 16)

    def change(op):
        plain, shifted = (op(t).relu().mean((2, 3)) for t in (x, x.roll((1, 1), (2, 3))))
        return ((shifted - plain).norm() / plain.norm()).item()

    changes = [change(Subsample2d(8))]
    changes += [change(BlurPool2d(8, filter_size=m, padding_mode="circular")) for m in (2, 3, 5, 7)]
    assert changes == sorted(changes, reverse=True)
    assert changes[0] > 3 * changes[-1]


def test_nan_and_infinity_reach_the_windows_that_cover_them_alone():
    for value in (torch.nan, torch.inf):
        x = torch.zeros(1, 1, 12, 12)
        x[..., 5, 6] = value
        touched = ~torch.isfinite(blur_pool2d(x, 3))
        assert touched.nonzero()[:, 2:].tolist() == [[2, 3], [3, 3]]


def test_single_image_is_a_batch_of_one():
    x = image(3, 7, 8)
    assert torch.equal(blur_pool2d(x), blur_pool2d(x[None])[0])


def test_mapped_axis_and_channels_last_may_meet():
    x = image(4, 2, 6, 8, 3).movedim(-1, 2)
    expected = torch.stack([blur_pool2d(part) for part in x])
    assert_close(torch.func.vmap(blur_pool2d)(x), expected)
    assert_close(torch.func.vmap(blur_pool2d, in_dims=1)(x), expected.transpose(0, 1))


def test_compiled_operator_takes_other_sizes():
    torch._dynamo.reset()
    op = torch.compile(BlurPool2d(2), fullgraph=True, backend="aot_eager", dynamic=True)
    for size in [(8, 8), (6, 9)]:
        x = image(2, 2, *size).requires_grad_()
        y, expected = op(x), blur_pool2d(x)
        assert_close(y, expected)
        upstream = torch.randn_like(y)
        assert_close(torch.autograd.grad(y, x, upstream), torch.autograd.grad(expected, x, upstream))


def test_flops_are_those_of_the_two_passes():
    # Rows: 4 x 8 outputs of 3 products and 2 sums; columns: 4 x 4 outputs.
    assert BlurPool2d(2).flops(8, 8) == 2 * (4 * 8 * 5 + 4 * 4 * 5)
    assert BlurPool2d(2, filter_size=1).flops(8, 8) == 0


def test_padding_by_torch_gives_the_same_where_torch_can_pad():
    x = image(2, 3, 8, 7)
    kernel = torch.tensor(taps(4), dtype=torch.float64)
    weight = torch.outer(kernel, kernel).expand(3, 1, 4, 4)
    for mode in ("reflect", "replicate", "circular"):
        padded = F.pad(x, (1, 2, 1, 2), mode=mode)
        assert_close(blur_pool2d(x, 4, 2, mode), F.conv2d(padded, weight, stride=2, groups=3))
