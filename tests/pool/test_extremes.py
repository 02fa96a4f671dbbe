"""Very large maps against the same operator in float64: nothing overflows on the way to a finite result."""

import copy

import pytest
import torch
from torch.testing import assert_close

from cnnpool.pool import adaptive_blur_pool2d, build, gated_pool2d, tree_pool2d


def both(op, x):
    """The operator of ``x`` and its gradient of an upstream gradient about 1; the same in float64."""
    exact = copy.deepcopy(op).double()
    upstream = torch.randn(op(x).shape, dtype=torch.float64).to(x.dtype)
    pairs = []
    for module, image in ((op, x), (exact, x.double())):
        image = image.clone().requires_grad_()
        y = module(image)
        pairs.append((y.detach(), *torch.autograd.grad(y, image, upstream.to(y.dtype))))
    return pairs


def learnt(stem, dtype):
    op = build(stem, 4).eval()
    with torch.no_grad():
        for parameter in op.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return op.to(dtype)


@pytest.mark.parametrize("magnitude", [1e18, 1e30])
def test_large_maps_come_out_as_in_float64(stem, magnitude):
    x = torch.randn(2, 4, 8, 8) * magnitude
    for got, exact in zip(*both(learnt(stem, torch.float32), x), strict=True):
        tolerance = 200 * torch.finfo(torch.float32).eps * exact.abs().max().item()
        assert_close(got.double(), exact, rtol=0, atol=tolerance)


@pytest.mark.parametrize(("dtype", "magnitude"), [(torch.bfloat16, 1e30), (torch.float16, 1e4)])
def test_large_maps_in_half_precision_come_out_where_they_can_be_written(stem, dtype, magnitude):
    x = (torch.randn(2, 4, 8, 8) * magnitude).to(dtype)
    (y, grad), (exact, exact_grad) = both(learnt(stem, dtype), x)
    fits = exact.abs() < torch.finfo(dtype).max
    assert fits.any() and grad[exact_grad.abs() < torch.finfo(dtype).max].isfinite().all()
    tolerance = 8 * torch.finfo(dtype).eps * exact[fits].abs().max().item()
    assert_close(y.double()[fits], exact[fits], rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_decided_gates_pass_large_gradients_on_and_learn_nothing_of_them(dtype):
    large = torch.finfo(dtype).max ** 0.6
    x = (large * torch.tensor([[1, 4], [2, 1]], dtype=dtype))[None, None].requires_grad_()
    gate = torch.ones(1, 4, dtype=dtype, requires_grad=True)
    leaves = torch.tensor([[[0, 1, 0, 0]], [[1, 0, 0, 0]]], dtype=dtype)
    for y in (gated_pool2d(x, gate, 2), tree_pool2d(x, leaves, gate[None], 2)):
        by_x, by_gate = torch.autograd.grad(y, (x, gate), torch.full_like(y, large))
        assert torch.equal(y.detach().flatten(), x.detach().flatten()[1:2])
        assert torch.equal(by_x.flatten(), large * leaves[0, 0])
        assert torch.equal(by_gate, torch.zeros_like(gate))


def test_infinite_logits_of_an_adaptive_blur_share_the_weight():
    x, logits = torch.arange(9.0).reshape(1, 1, 3, 3), torch.zeros(1, 9, 1, 1)
    logits[0, [3, 5]] = torch.inf
    assert adaptive_blur_pool2d(x, logits, 3, 3, "zeros").item() == 0.5
    none = torch.full_like(logits, -torch.inf)
    assert_close(adaptive_blur_pool2d(x, none, 3, 3, "replicate").item(), 4 / 3)
