import numpy as np
import pytest
import torch
from PIL import Image
from torch.testing import assert_close

from cnnpool.pool import build


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
