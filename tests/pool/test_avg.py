"""Average pooling: the divisor at every edge, the gradient, and nothing remembered."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import grad
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves

from cnnpool.pool import AvgPool2d, avg_pool2d, blur_pool2d


def slow_avg(x, rows, columns, kernel, stride, padding, include_pad, override):
    """Means of a (C, H, W) map by the definition: the cells there are, over what counts as there."""
    y = torch.zeros(x.shape[0], rows, columns, dtype=x.dtype)
    for r, c in itertools.product(range(rows), range(columns)):
        inside, padded = [], 0
        for i, j in itertools.product(range(kernel[0]), range(kernel[1])):
            h, w = r * stride[0] - padding[0] + i, c * stride[1] - padding[1] + j
            padded += h < x.shape[1] + padding[0] and w < x.shape[2] + padding[1]
            if 0 <= h < x.shape[1] and 0 <= w < x.shape[2]:
                inside.append(x[:, h, w])
        y[:, r, c] = torch.stack(inside).sum(0) / (override or (padded if include_pad else len(inside)))
    return y


lengths, windows = st.integers(1, 7), st.integers(1, 4)


@settings(max_examples=60)
@given(
    size=st.tuples(lengths, lengths),
    kernel=st.tuples(windows, windows),
    stride=st.tuples(windows, windows),
    padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    ceil_mode=st.booleans(),
    include_pad=st.booleans(),
    override=st.sampled_from([None, 1, 5, -2]),
    layout=st.sampled_from([torch.contiguous_format, torch.channels_last]),
)
def test_any_window_gives_the_definition_and_torchs_answer(
    size, kernel, stride, padding, ceil_mode, include_pad, override, layout
):
    x = torch.randn(2, 2, *size, dtype=torch.float64).contiguous(memory_format=layout).requires_grad_()
    args = (kernel, stride, padding, ceil_mode, include_pad, override)
    try:
        expected = F.avg_pool2d(x, *args)
    except RuntimeError:
        with pytest.raises(ValueError):
            avg_pool2d(x, *args)
        return
    y = avg_pool2d(x, *args)
    assert_close(y, expected, rtol=1e-14, atol=1e-14, check_stride=True)
    slow = torch.stack([slow_avg(m, *y.shape[2:], kernel, stride, padding, include_pad, override) for m in x])
    assert_close(y, slow)
    upstream = torch.randn_like(y)
    ours = grad(y, x, upstream)[0]
    assert_close(ours, grad(slow, x, upstream)[0])
    assert_close(ours, grad(expected, x, upstream)[0], check_stride=True)


def test_constant_map_stays_constant_at_the_borders_when_padding_is_not_counted():
    x = torch.full((1, 2, 7, 6), 3.0)
    for options in [{"padding": 1, "count_include_pad": False}, {"ceil_mode": True}, {}]:
        pool = AvgPool2d(2, kernel_size=3, **options)
        assert pool.gain == 1.0
        assert_close(pool(x), torch.full_like(pool(x), 3.0))
    counted = AvgPool2d(2, kernel_size=3, padding=1)
    assert counted.gain is None
    assert_close(counted(x)[0, 0, 0, 0], torch.tensor(3 * 4 / 9))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("ceil_mode", [False, True])
def test_half_precision_gradient_is_rounded_once(dtype, ceil_mode):
    x = torch.randn(2, 3, 14, 14, dtype=dtype, requires_grad=True)
    exact = x.detach().double().requires_grad_()
    y, reference = (avg_pool2d(t, 3, 2, 1, ceil_mode) for t in (x, exact))
    upstream = (torch.randn_like(reference) * 10 ** torch.empty(y.shape).uniform_(-2, 1)).to(dtype)
    got = grad(y, x, upstream)[0].double()
    expected = grad(reference, exact, upstream.double())[0]
    (torchs,) = grad(F.avg_pool2d(x, 3, 2, 1, ceil_mode), x, upstream)
    # Beside float32's own rounding of cancelling terms, half a unit in the last place.
    scale = F.avg_pool2d(upstream.double().abs(), 1).max()
    assert_close(got, expected, rtol=torch.finfo(dtype).eps / 2 * 1.001, atol=1e-6 * scale.item())
    assert (got - expected).abs().sum() < (torchs.double() - expected).abs().sum()


@pytest.mark.parametrize("operator", [lambda x: avg_pool2d(x, 3, 2, 1), blur_pool2d])
def test_nothing_is_kept_for_the_backward_pass(operator):
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        y = operator(torch.randn(2, 3, 8, 8, requires_grad=True))
    assert not kept
    assert not any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(vars(y.grad_fn)))
