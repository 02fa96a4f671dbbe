"""When compiled kernels work, and when torch does: by what a tensor is, by what is asked, by size.

Tensors that are not what their memory says are left to torch, or resolved.
"""

import os
import runpy
import subprocess
import sys
from itertools import product

import pytest
import torch
from torch import func
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import FlopCounterMode

from cnnpool import pool

pytest.importorskip("numba")
LAYOUTS = (torch.contiguous_format, torch.channels_last)


def takes(*tensors):
    return pool.dispatch.kernels("linear", *tensors) is not None


def test_plain_floating_tensors_are_taken_and_no_others():
    plain = torch.randn(2, 3, 8, 8)
    with pool.dispatch.use(True):
        assert takes(plain) and takes(plain.requires_grad_()) and takes(plain.mT)
        assert takes(plain.bfloat16(), plain.double())
        assert not takes(plain, plain.int())
        assert not takes(plain.to("meta"))
        assert not takes(torch.nn.Parameter(plain)), "a subclass may mean something else"
        assert not takes(FakeTensorMode().from_tensor(plain.detach()))
        with FlopCounterMode(display=False):
            assert not takes(plain)
    with pool.dispatch.use(False):
        assert not takes(plain)


def test_tensors_under_a_transform_are_left_to_torch():
    taken = []

    def look(x):
        taken.append(takes(x))
        return x.sum()

    with pool.dispatch.use(True):
        func.vmap(look)(torch.randn(2, 3))
        func.grad(look)(torch.randn(3))
    assert taken == [False, False]


def test_a_trace_holds_operators_and_no_constant():
    x, other = torch.randn(1, 2, 8, 8), torch.randn(1, 2, 8, 8)
    with pool.dispatch.use(True):
        traced = make_fx(lambda x: pool.max_pool2d(x, 2))(x)
        assert torch.equal(traced(other), pool.max_pool2d(other, 2))


@pytest.mark.parametrize("function", [
    lambda x: pool.max_pool2d(x, 2),
    lambda x: pool.max_pool2d(x, 3, 2, 1),
    lambda x: pool.max_pool2d(x, (2, 3), (1, 2), (1, 0), 2, True),
    lambda x: pool.avg_pool2d(x, 2),
    lambda x: pool.avg_pool2d(x, 3, 2, 1, True, False),
    lambda x: pool.avg_pool2d(x, 3, 1, 1, divisor_override=5),
])  # fmt: skip
def test_small_maps_are_torchs_and_the_results_the_same(function):
    for dtype, layout in product((torch.float32, torch.bfloat16), LAYOUTS):
        x = torch.randn(1, 4, 7, 8).round(decimals=1).to(dtype).contiguous(memory_format=layout)
        answers, names = [], []
        for wanted in (None, True):
            x = x.detach().requires_grad_()
            with pool.dispatch.use(wanted):
                y = function(x)
            upstream = torch.randn(y.shape, generator=torch.Generator().manual_seed(0)).to(dtype)
            answers.append((y, torch.autograd.grad(y, x, upstream)[0]))
            names.append(type(y.grad_fn).__name__)
        assert names[0] in ("MaxPool2DWithIndicesBackward0", "AvgPool2DBackward0", "ToCopyBackward0")
        assert names[1] in ("MaxBackward", "LinearBackward")
        for small, ours in zip(*answers, strict=True):
            tolerance = 0 if names[1].startswith("Max") else 2 * torch.finfo(dtype).eps
            torch.testing.assert_close(small, ours, rtol=tolerance, atol=tolerance, check_stride=True)


def test_large_maps_are_not_torchs():
    for function in (pool.max_pool2d, pool.avg_pool2d):
        with pool.dispatch.use(None):
            y = function(torch.randn(8, 32, 32, 32, requires_grad=True), 2)
        assert type(y.grad_fn).__name__ in ("MaxBackward", "LinearBackward")


def test_environment_variables_decide(monkeypatch):
    monkeypatch.delenv("CNNPOOL_KERNELS", raising=False)
    for name, value, wanted in (
        ("CNNPOOL_KERNELS", "0", False), ("CNNPOOL_KERNELS", "1", True), ("NUMBA_DISABLE_JIT", "1", False)
    ):  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert runpy.run_path(pool.dispatch.__file__)["_wanted"] is wanted


def test_importing_the_operators_does_not_import_numba_and_without_it_torch_does_everything():
    code = """
import importlib, sys
from cnnpool.pool import dispatch, max_pool2d
import torch
print("numba" in sys.modules)
find, sys.modules["numba"] = importlib.util.find_spec, None
importlib.util.find_spec = lambda name, *rest: None if name == "numba" else find(name, *rest)
importlib.reload(dispatch)
print(max_pool2d(torch.arange(16.0).reshape(1, 1, 4, 4), 2).flatten().tolist())
try:
    with dispatch.use(True):
        pass
except ValueError as error:
    print(error)
"""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=True)
    imported, result, refused = done.stdout.splitlines()
    assert imported == "False" and result == "[5.0, 7.0, 13.0, 15.0]" and "pip install numba" in refused


OPERATORS = {
    "max tiles": lambda x: pool.max_pool2d(x, 2), "max": lambda x: pool.max_pool2d(x, 3, 2, 1),
    "avg": lambda x: pool.avg_pool2d(x, 2), "blur": pool.blur_pool2d, "max_blur": pool.max_blur_pool2d,
    "lp": lambda x: pool.lp_pool2d(x, 2, 2, form="mean"), "gem": lambda x: pool.gem_pool2d(x, 2, p=2.5),
    "soft": lambda x: pool.soft_pool2d(x, 3, 2),
    "expectation": lambda x: pool.stochastic_pool2d(x, 2, training=False),
    "aps": lambda x: pool.aps_pool2d(x)[0]
}  # fmt: skip
operators = pytest.mark.parametrize("operator", OPERATORS.values(), ids=OPERATORS)


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
    same(results(operator, torch._neg_view(x), torch.ones_like), results(operator, -x, torch.ones_like))
    expected = results(operator, x, lambda y: -torch.ones_like(y))
    same(results(operator, x, lambda y: torch._neg_view(torch.ones_like(y))), expected)
    z = torch.randn(2, 3, 8, 10, dtype=torch.complex128)
    assert z.conj().imag.is_neg()
    same(results(operator, z.conj().imag, torch.ones_like), results(operator, -z.imag, torch.ones_like))


def test_zeros_without_memory_are_zeros():
    zeros = torch._efficientzerotensor(2, 3, 8, 10, dtype=torch.float64)
    assert zeros.data_ptr() == 0
    with pool.dispatch.use(True):
        for name in OPERATORS.keys() - {"blur"}:
            expected = OPERATORS[name](torch.zeros(2, 3, 8, 10, dtype=torch.float64))
            torch.testing.assert_close(OPERATORS[name](zeros), expected)


@pytest.mark.parametrize("name", ["lp", "gem", "soft", "expectation"])
def test_functionalised_maps_are_torchs(name):
    # torch has no rule for the autograd functions of the others.
    x = torch.randn(2, 3, 8, 10, dtype=torch.float64)
    y = func.functionalize(OPERATORS[name])(x)
    torch.testing.assert_close(y, OPERATORS[name](x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["max", "max tiles", "avg", "blur", "max_blur", "aps"])
def test_a_batch_of_gradients_goes_back_through_a_map_of_kernels(name):
    x = torch.randn(2, 3, 8, 10, dtype=torch.float64).contiguous(memory_format=torch.channels_last)
    x.requires_grad_()
    with pool.dispatch.use(True):
        y = OPERATORS[name](x)
        upstream = torch.randn(4, *y.shape, dtype=torch.float64)
        rows = [torch.autograd.grad(y, x, one, retain_graph=True)[0] for one in upstream]
        batched = func.vmap(lambda one: torch.autograd.grad(y, x, one, retain_graph=True)[0])(upstream)
    torch.testing.assert_close(batched, torch.stack(rows))


@operators
def test_another_default_device_changes_nothing(operator):
    x = torch.randn(2, 3, 9, 10, dtype=torch.float64)
    with pool.dispatch.use(False):
        expected = results(operator, x, torch.ones_like)
    with pool.dispatch.use(True), torch.device("meta"):
        same(results(operator, x, torch.ones_like), expected)


# Private names of torch: known to the torch that is installed, and dispensable.
def test_this_torch_has_them_all():
    assert pool.internals._count_modes is not None and pool.internals._transforms_active is not None


@pytest.fixture(params=["_count_modes", "_transforms_active", "both"])
def missing(request, monkeypatch):
    for name in ("_count_modes", "_transforms_active") if request.param == "both" else (request.param,):
        monkeypatch.setattr(pool.internals, name, None)
    return request.param


@pytest.mark.parametrize("name", ["max", "max tiles", "blur", "max_blur", "lp"])
def test_without_them_results_and_gradients_are_the_same(name, missing, monkeypatch):
    x, operator = torch.randn(2, 3, 12, 14, dtype=torch.float64, requires_grad=True), OPERATORS[name]

    def found():
        y = operator(x)
        (gradient,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(gradient.square().sum(), x)
        tangent = func.jvp(operator, (x,), (torch.ones_like(x),))[1]
        rows = func.vmap(operator)(x.unsqueeze(1))[:, 0]
        return [t.detach() for t in (y, gradient, second, tangent, rows)]

    without = found()
    monkeypatch.undo()
    same(without, found())


def test_what_cannot_be_told_keeps_kernels_away(missing):
    x = torch.randn(2, 3, 12, 14)
    with pool.dispatch.use(True):
        assert pool.dispatch.kernels("max", x) is None
