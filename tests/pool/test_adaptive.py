"""Adaptive average and max pooling, which share their bins."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from cnnpool.pool import build

TORCH = {"adaptive_avg": F.adaptive_avg_pool2d, "adaptive_max": F.adaptive_max_pool2d}
REDUCE = {"adaptive_avg": torch.mean, "adaptive_max": torch.amax}


def test_hand_worked_example_of_overlapping_bins():
    # 5 columns in 3 bins: [0, 2), [1, 4) and [3, 5).
    x = torch.tensor([1.0, 3, 5, 1, 9]).expand(1, 1, 5, 5)
    assert build("adaptive_avg", 1, output_size=(5, 3))(x)[0, 0, 0].tolist() == [2, 3, 5]
    assert build("adaptive_max", 1, output_size=(5, 3))(x)[0, 0, 0].tolist() == [3, 5, 9]


@pytest.mark.parametrize("name", TORCH)
@settings(max_examples=40)
@given(
    size=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    target=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    seed=st.integers(0, 99),
)
def test_fixed_size_equals_torch_and_the_bins_written_out(name, size, target, seed):
    x = torch.randn(2, 2, *size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    x.requires_grad_()
    op = build(name, 2, output_size=target)
    out, reference = op(x), TORCH[name](x, target)
    assert op.output_size(*size) == target
    assert_close(out, reference)
    grad = torch.rand_like(out)
    assert_close(*(torch.autograd.grad(y, x, grad)[0] for y in (out, reference)))
    for i, j in ((0, 0), (target[0] - 1, target[1] - 1)):
        rows, columns = (
            slice(k * length // count, math.ceil((k + 1) * length / count))
            for k, length, count in zip((i, j), size, target, strict=True)
        )
        assert_close(out[..., i, j], REDUCE[name](x[..., rows, columns], (2, 3)))


@pytest.mark.parametrize("name", TORCH)
def test_without_a_size_it_divides_by_the_stride(name):
    for size, stride, expected in (((8, 6), 2, (4, 3)), ((7, 9), 2, (3, 4)), ((9, 8), (3, 2), (3, 4))):
        op, x = build(name, 1, stride=stride), torch.randn(1, 1, *size, dtype=torch.float64)
        assert op(x).shape[2:] == op.output_size(*size) == expected
        assert_close(op(x), TORCH[name](x, expected))


@pytest.mark.parametrize("name", TORCH)
def test_equal_bins_are_plain_windows(name):
    x = torch.relu(torch.randn(2, 3, 9, 8)).requires_grad_()
    plain = {"adaptive_avg": F.avg_pool2d, "adaptive_max": F.max_pool2d}[name](x, (3, 2))
    out = build(name, 3, output_size=(3, 4))(x)
    assert_close(out, plain)
    grads = [torch.autograd.grad(y.square().sum(), x)[0] for y in (out, plain)]
    assert_close(*grads)
