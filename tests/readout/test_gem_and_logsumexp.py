"""Generalised mean and log-sum-exp against their formulas, timm, scipy and their limits."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from torch.testing import assert_close

from cnnpool.readout import GlobalGeM2d, GlobalLogSumExpPool2d

SIZE = (5, 7)


def image(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def gem(x, p, eps=1e-6):
    return (x.clamp(min=eps) ** p).mean((2, 3)) ** (1 / p)


@given(st.floats(0.1, 20), st.booleans())
@settings(max_examples=50)
def test_gem_is_its_formula_whether_p_is_fixed_or_learnt(p, learnable):
    readout, x = GlobalGeM2d(3, SIZE, p=p, learnable=learnable).double(), image(2, 3, *SIZE)
    # A learnt p has been a float32 parameter.
    assert_close(readout(x), gem(x, p), **({"rtol": 1e-5, "atol": 1e-7} if learnable else {}))


def test_gem_of_a_large_p_tends_to_the_maximum_without_overflow():
    x = image(2, 3, *SIZE).abs() * 1e4
    ours = GlobalGeM2d(3, SIZE, p=1000.0, learnable=False)(x)
    assert_close(ours, x.amax((2, 3)), rtol=math.log(35) / 1000, atol=0)


def test_gem_gradient_is_the_stated_one():
    x, p, eps = image(2, 3, *SIZE).requires_grad_(), 2.5, 1e-3
    y = GlobalGeM2d(3, SIZE, p=p, learnable=False, eps=eps)(x)
    (grad,) = torch.autograd.grad(y.sum(), x)
    expected = (x.clamp(min=eps) / y[..., None, None]) ** (p - 1) / 35 * (x > eps)
    assert_close(grad, expected)


def test_gem_gradient_of_p_is_the_formulas():
    x = image(2, 3, *SIZE)
    readout, p = GlobalGeM2d(3, SIZE).double(), torch.tensor(3.0, dtype=torch.float64, requires_grad=True)
    (ours,) = torch.autograd.grad(readout(x).sum(), readout.p.raw)
    (exact,) = torch.autograd.grad(gem(x, p).sum(), p)
    # p = softplus(raw), whose slope is sigmoid(raw).
    assert_close(ours[0], exact * readout.p.raw[0].sigmoid(), rtol=1e-5, atol=1e-7)


def test_gem_of_a_channel_that_is_nowhere_positive_is_eps_and_dead():
    x = (-image(2, 3, *SIZE).abs() - 0.1).requires_grad_()
    y = GlobalGeM2d(3, SIZE, eps=1e-4)(x)
    y.sum().backward()
    assert_close(y, torch.full_like(y, 1e-4))
    assert not x.grad.any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gem_of_half_precision_neither_overflows_nor_loses_the_small(dtype):
    x = torch.tensor([1e-3, 3e4], dtype=dtype)[None, :, None, None].expand(1, 2, 8, 8)
    y = GlobalGeM2d(2, (8, 8))(x)
    assert y.dtype == dtype
    assert_close(y, x[..., 0, 0])


def test_exponent_is_one_per_layer_or_per_channel_or_no_parameter():
    fixed = {"learnable": False}
    for readout in (GlobalGeM2d, GlobalLogSumExpPool2d):
        made = [
            readout(6, SIZE, **each) for each in ({}, {"per": "channel"}, fixed, fixed | {"per": "channel"})
        ]
        assert [sum(p.numel() for p in each.parameters()) for each in made] == [1, 6, 0, 0]


def test_gem_channels_have_their_own_p():
    readout, x = GlobalGeM2d(2, SIZE, per="channel").double(), image(2, 2, *SIZE)
    with torch.no_grad():
        readout.p.raw.copy_(torch.tensor([2.0, 5.0]).double().expm1().log())
    assert_close(readout(x), torch.stack([gem(x, 2.0)[:, 0], gem(x, 5.0)[:, 1]], 1))


@pytest.mark.parametrize("r", [0.1, 1.0, 10.0])
def test_logsumexp_is_timms_and_scipys(r):
    layers = pytest.importorskip("timm.layers")
    readout, x = GlobalLogSumExpPool2d(3, SIZE, r=r, learnable=False), image(2, 3, *SIZE)
    assert_close(readout(x), layers.LsePlus2d(r=r).double()(x), rtol=1e-6, atol=1e-6)
    exact = logsumexp(r * x.numpy(), axis=(2, 3), b=1 / 35) / r
    assert_close(readout(x), torch.from_numpy(exact))


def test_logsumexp_limits_are_average_and_maximum():
    x = image(2, 3, *SIZE)
    average, maximum = (GlobalLogSumExpPool2d(3, SIZE, r=r, learnable=False)(x) for r in (1e-6, 1e4))
    assert_close(average, x.mean((2, 3)), rtol=0, atol=1e-5)
    assert_close(maximum, x.amax((2, 3)), rtol=0, atol=1.001 * math.log(35) / 1e4)


def test_logsumexp_gradient_is_the_softmax():
    x = image(2, 3, *SIZE).requires_grad_()
    GlobalLogSumExpPool2d(3, SIZE, r=2.0, learnable=False)(x).sum().backward()
    assert_close(x.grad, (2 * x).flatten(2).softmax(2).unflatten(2, SIZE))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_logsumexp_of_large_activations_does_not_overflow(dtype):
    x = torch.full((1, 2, *SIZE), 6e4, dtype=dtype)
    assert torch.equal(GlobalLogSumExpPool2d(2, SIZE)(x), x[..., 0, 0])
