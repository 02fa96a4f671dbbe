"""DiffStride against the paper's mask applied to numpy's Fourier transform."""

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck
from torch.testing import assert_close

from cnnpool.pool import DiffStride2d
from cnnpool.pool.spectral import spectral_pool2d


def paper_mask(length, stride, smoothness):
    """clip((R + H/(2S) - |k|)/R, 0, 1) at every frequency of numpy's transform."""
    number = np.abs(np.fft.fftfreq(length, 1 / length))
    return np.clip((smoothness + length / (2 * stride) - number) / smoothness, 0, 1)


@pytest.mark.parametrize("size", [(16, 16), (24, 9), (15, 32), (1, 2)])
@pytest.mark.parametrize(
    ("stride", "bandwidth", "smoothness"), [(2, 0.8, 4.0), (3, 0.3, 1.5), (1.5, 0.6, 0.1)]
)
def test_it_is_the_papers_mask_and_then_a_crop(size, stride, bandwidth, smoothness):
    op = DiffStride2d(2, stride=stride, bandwidth=bandwidth, smoothness=smoothness).double()
    x = torch.randn(2, 2, *size).double()
    masks = [paper_mask(n, stride / bandwidth, smoothness) for n in size]
    masked = np.fft.ifft2(np.fft.fft2(x.numpy()) * np.outer(*masks)).real
    expected = spectral_pool2d(torch.from_numpy(masked), op.output_size(*size))
    assert_close(op(x), expected, rtol=1e-7, atol=1e-7)


def test_each_axis_learns_its_own_stride():
    op = DiffStride2d(1, stride=(2, 4))
    with torch.no_grad():
        op.band.copy_(torch.tensor([0.5, 0.25]).logit())
    down, across = op.mask(32, 64)
    assert_close(down, torch.tensor([*[1.0] * 5, 0.75, 0.5, 0.25, *[0] * 9])[:9])
    assert_close(across, torch.tensor([*[1.0] * 3, 0.75, 0.5, 0.25, *[0.0] * 9])[:9])


def test_gradient_of_the_band_is_the_numerical_one():
    op, x = DiffStride2d(2).double(), torch.randn(1, 2, 16, 18).double()
    band = torch.tensor([0.3, 1.1], dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda band: torch.func.functional_call(op, {"band": band}, (x,)), (band,))
    op(x).square().sum().backward()
    assert (op.band.grad > 0).all(), "a wider band lets more energy through"


@pytest.mark.parametrize("logit", [-60.0, -3.0, 3.0, 60.0])
@pytest.mark.parametrize("size", [(1, 1), (7, 8), (32, 28)])
def test_no_learnt_value_changes_a_shape_or_the_gain(logit, size):
    op = DiffStride2d(2)
    with torch.no_grad():
        op.band.fill_(logit)
    out = op(torch.ones(1, 2, *size))
    assert out.shape[2:] == (-(-size[0] // 2), -(-size[1] // 2))
    assert_close(out, torch.ones_like(out))
