"""Tensors that are not what their memory says: kernels must leave them to torch, or resolve them."""

import pytest
import torch
from torch import func
from torch.autograd import forward_ad

from cnnpool.pool import (
    aps_pool2d,
    avg_pool2d,
    blur_pool2d,
    dispatch,
    gem_pool2d,
    lp_pool2d,
    max_blur_pool2d,
    max_pool2d,
    soft_pool2d,
    stochastic_pool2d,
    sum_pool2d,
)

pytest.importorskip("numba")

OPERATORS = {
    "max tiles": lambda x: max_pool2d(x, 2),
    "max": lambda x: max_pool2d(x, 3, 2, 1),
    "max split": lambda x: max_pool2d(x, 2, ties="split"),
    "avg": lambda x: avg_pool2d(x, 2),
    "avg padded": lambda x: avg_pool2d(x, 3, 2, 1),
    "sum": lambda x: sum_pool2d(x, 2),
    "blur": blur_pool2d,
    "max_blur": max_blur_pool2d,
    "lp": lambda x: lp_pool2d(x, 3, 2),
    "gem": lambda x: gem_pool2d(x, 2),
    "soft": lambda x: soft_pool2d(x, 3, 2),
    "expectation": lambda x: stochastic_pool2d(x, 2, training=False),
    "aps": lambda x: aps_pool2d(x)[0],
}
operators = pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)


@pytest.fixture(autouse=True)
def compiled():
    with dispatch.use(True):
        yield


def results(operator, x, upstream):
    x = x.detach().requires_grad_()
    y = operator(x)
    return y.detach(), torch.autograd.grad(y, x, upstream(y))[0]


def same(ours, expected):
    for a, b in zip(ours, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@operators
def test_maps_and_gradients_that_are_lazily_negated_have_their_sign(operator):
    x = torch.randn(2, 3, 8, 10, dtype=torch.float64)
    negated = torch._neg_view(x)
    assert negated.is_neg() and negated.data_ptr() == x.data_ptr()
    same(results(operator, negated, torch.ones_like), results(operator, -x, torch.ones_like))
    expected = results(operator, x, lambda y: -torch.ones_like(y))
    same(results(operator, x, lambda y: torch._neg_view(torch.ones_like(y))), expected)
    z = torch.randn(2, 3, 8, 10, dtype=torch.complex128)
    assert z.conj().imag.is_neg()
    same(results(operator, z.conj().imag, torch.ones_like), results(operator, -z.imag, torch.ones_like))


@operators
def test_complex_and_sparse_maps_are_refused(operator):
    with pytest.raises((ValueError, NotImplementedError)):
        operator(torch.randn(1, 1, 4, 4, dtype=torch.complex64).conj())
    with pytest.raises(NotImplementedError):
        operator(torch.randn(2, 3, 8, 10, dtype=torch.float64).to_sparse())


def test_zeros_without_memory_are_zeros():
    zeros = torch._efficientzerotensor(2, 3, 8, 10, dtype=torch.float64)
    assert zeros.data_ptr() == 0
    for name in OPERATORS.keys() - {"blur"}:
        expected = OPERATORS[name](torch.zeros(2, 3, 8, 10, dtype=torch.float64))
        torch.testing.assert_close(OPERATORS[name](zeros), expected)
    with pytest.raises(RuntimeError, match="ZeroTensors are immutable"):
        OPERATORS["blur"](zeros)


@pytest.mark.parametrize("name", ["lp", "gem", "soft", "expectation"])
def test_functionalised_maps_are_torchs(name):
    # torch has no rule for the autograd functions of the others.
    x = torch.randn(2, 3, 8, 10, dtype=torch.float64)
    y = func.functionalize(OPERATORS[name])(x)
    torch.testing.assert_close(y, OPERATORS[name](x), rtol=1e-12, atol=1e-12)


@operators
def test_constants_under_a_transform_are_pooled(operator):
    x = torch.randn(2, 3, 8, 10, dtype=torch.float64)
    weight = torch.tensor(2.0, dtype=torch.float64)
    gradient = func.grad(lambda w: (w * operator(x)).sum())(weight)
    torch.testing.assert_close(gradient, operator(x).sum())
    tangent = func.jvp(lambda w: (w * operator(x)).sum(), (weight,), (weight,))[1]
    torch.testing.assert_close(tangent, 2 * operator(x).sum())
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(weight, weight)
        torch.testing.assert_close(forward_ad.unpack_dual(dual * operator(x)).tangent, 2 * operator(x))


@operators
def test_another_default_device_changes_nothing(operator):
    x = torch.randn(2, 3, 8, 10, dtype=torch.float64)
    fresh = torch.randn(2, 3, 9, 7, dtype=torch.float64)
    expected = results(operator, x, torch.ones_like)
    with dispatch.use(False):
        plain = results(operator, fresh, torch.ones_like)
    with torch.device("meta"):
        same(results(operator, x, torch.ones_like), expected)
        same(results(operator, fresh, torch.ones_like), plain)
    torch.set_default_device("meta")
    try:
        same(results(operator, x, torch.ones_like), expected)
    finally:
        torch.set_default_device(None)
