"""Adaptive average and max pooling, and resizing."""

import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch.testing import assert_close

from cnnpool.pool import build
from cnnpool.pool.adaptive import averages, largest

TORCH = {"adaptive_avg": F.adaptive_avg_pool2d, "adaptive_max": F.adaptive_max_pool2d}
REDUCE = {"adaptive_avg": torch.mean, "adaptive_max": torch.amax}


def test_hand_worked_example_of_overlapping_bins():
    # 5 columns in 3 bins: [0, 2), [1, 4) and [3, 5).
    x = torch.tensor([1.0, 3, 5, 1, 9]).expand(1, 1, 5, 5)
    assert build("adaptive_avg", 1, output_size=(5, 3))(x)[0, 0, 0].tolist() == [2, 3, 5]
    assert build("adaptive_max", 1, output_size=(5, 3))(x)[0, 0, 0].tolist() == [3, 5, 9]


@pytest.mark.parametrize("length", [1, 2, 5, 9])
def test_bins_of_a_map_of_any_size_in_the_plain_operations_of_an_export_are_torchs(length):
    x = torch.randn(2, 3, length, length + 2, dtype=torch.float64)
    for size in itertools.product(range(1, length + 1), range(1, length + 3)):
        assert_close(averages(x, size), F.adaptive_avg_pool2d(x, size))
        assert torch.equal(largest(x, size), F.adaptive_max_pool2d(x, size))


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


def triangle(length, count):
    """Weights (count, length) of the widened triangle, normalised inside the map, written out."""
    scale = length / count
    centres = (np.arange(count) + 0.5) * scale
    distance = np.abs(np.arange(length)[None] + 0.5 - centres[:, None]) / max(scale, 1)
    weights = np.maximum(1 - distance, 0)
    return torch.from_numpy(weights / weights.sum(1, keepdims=True))


def test_hand_worked_example():
    # Inside, the stride 2 triangle is [1 3 3 1] / 8; at the border one weight is missing.
    x = torch.zeros(1, 1, 1, 8).expand(1, 1, 8, 8).clone()
    x[..., 3] = 8
    assert_close(build("resize", 1)(x)[0, 0, 0], torch.tensor([0.0, 3, 1, 0]))
    x = x.roll(-3, 3)
    assert_close(build("resize", 1)(x)[0, 0, 0], torch.tensor([24 / 7, 0, 0, 0]))


@pytest.mark.parametrize("size", [(8, 8), (9, 7), (12, 5), (12, 3), (3, 12), (4, 4)])
@pytest.mark.parametrize("stride", [1, 2, 3, (3, 1)])
def test_equals_the_widened_triangle_written_out(size, stride):
    op, x = build("resize", 3, stride=stride), torch.randn(2, 3, *size, dtype=torch.float64)
    down, across = (triangle(a, b) for a, b in zip(size, op.output_size(*size), strict=True))
    grad = torch.randn(2, 3, *op.output_size(*size), dtype=torch.float64)
    for layout in (torch.contiguous_format, torch.channels_last):
        y = x.contiguous(memory_format=layout).requires_grad_()
        assert_close(op(y), down @ x @ across.T)
        assert_close(torch.autograd.grad(op(y), y, grad)[0], down.T @ grad @ across)


@pytest.mark.parametrize("mode, resample", [("bilinear", Image.BILINEAR), ("bicubic", Image.BICUBIC)])
def test_equals_pil(mode, resample):
    image = np.random.default_rng(0).random((16, 12)).astype(np.float32)
    expected = np.array(Image.fromarray(image).resize((6, 8), resample))
    out = build("resize", 1, mode=mode)(torch.from_numpy(image)[None, None])
    assert_close(out[0, 0], torch.from_numpy(expected), rtol=1e-4, atol=1e-5)
