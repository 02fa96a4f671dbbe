"""Compiled power means, soft means and draws against the plain torch path, and that in float64."""

import math
from itertools import product

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.autograd import grad, gradcheck, gradgradcheck
from torch.testing import assert_close

from cnnpool.pool import dispatch, gem_pool2d, lp_pool2d, soft_pool2d, stochastic_pool2d

pytest.importorskip("numba")

from cnnpool.pool.cpu import threads

HALVES = (torch.bfloat16, torch.float16)
DTYPES = (torch.float64, torch.float32, *HALVES)
LAYOUTS = (torch.contiguous_format, torch.channels_last)
SPECIAL = [math.nan, -math.inf, math.inf, 0.0, -0.0, 1.0, -1.0, 1e-7, -3e4, torch.finfo(torch.float32).min]
WIDE = {dtype: torch.float64 if dtype == torch.float64 else torch.float32 for dtype in DTYPES}

windows, sides = st.tuples(*[st.integers(1, 4)] * 2), st.integers(1, 3)

OPERATORS = {
    "lp whole": lambda x, number, *w: lp_pool2d(x, 2, *w[:2], w[3], padding=w[2], form="mean"),
    "lp mean": lambda x, number, *w: lp_pool2d(x, 2.5, *w[:2], w[3], padding=w[2], form="mean"),
    "lp learnt": lambda x, number, *w: lp_pool2d(x, number, *w[:2], w[3], padding=w[2]),
    "gem learnt": lambda x, number, *window: gem_pool2d(x, *window, p=number, eps=0.1),
    "soft": lambda x, number, *window: soft_pool2d(x, *window, beta=2.0),
    "soft learnt": lambda x, number, *window: soft_pool2d(x, *window, beta=number),
    "stochastic mean": lambda x, number, *window: stochastic_pool2d(x, *window, training=False),
}

# Every type is compiled for anew, which takes longer than all else here; all load and store alike.
CASES = [(name, torch.float32) for name in OPERATORS]
CASES += [("soft", torch.bfloat16), ("stochastic mean", torch.float16), ("gem learnt", torch.float64)]


def answers(function, wanted, x, number, upstream):
    """(output, gradient by x, gradient by the number), by kernels or by torch."""
    x, number = x.detach().requires_grad_(), number.detach().requires_grad_()
    with dispatch.use(wanted):
        y = function(x, number)
        slopes = grad(y, (x, number), upstream.to(y.dtype), allow_unused=True)
    return [y.detach(), *(slope for slope in slopes if slope is not None)]


@pytest.mark.parametrize(("name", "dtype"), CASES)
@settings(max_examples=60)
@given(
    shape=st.tuples(st.integers(0, 2), sides | st.just(32), st.integers(1, 18), st.integers(1, 40)),
    tiles=st.booleans(),
    kernel=windows,
    stride=windows,
    padding=st.tuples(*[st.integers(0, 2)] * 2),
    ceil=st.booleans(),
    layout=st.sampled_from(LAYOUTS),
    per_channel=st.booleans(),
    seed=st.integers(0, 99),
)
def test_values_and_gradients_are_those_of_the_formula_in_float64(
    name, dtype, shape, tiles, kernel, stride, padding, ceil, layout, per_channel, seed
):
    kernel, stride, padding = ((2, 2), (2, 2), 0) if tiles else (kernel, stride, padding)
    torch.manual_seed(seed)
    x = torch.randn(shape, dtype=torch.float64).to(dtype).contiguous(memory_format=layout)
    number = (1.5 + 2 * torch.rand(shape[1] if per_channel else 1, 1, 1)).to(WIDE[dtype])
    function = lambda x, number: OPERATORS[name](x, number, kernel, stride, padding, ceil)  # noqa: E731
    try:
        with dispatch.use(False):
            y = function(x, number)
    except ValueError:
        assume(False)
    upstream = torch.randn(y.shape, dtype=torch.float64).to(dtype).double()
    ours = answers(function, True, x, number, upstream)
    exact = answers(function, False, x.double(), number.double(), upstream)
    eps = torch.finfo(dtype).eps
    steps = torch.finfo(WIDE[dtype]).eps
    bounds = (2 * eps + 20 * steps, 2 * eps + 200 * steps, 2e3 * steps)
    for a, b, bound in zip(ours, exact, bounds, strict=False):
        assert_close(a.double(), b, rtol=bound, atol=bound * max(1, b.abs().max() if b.numel() else 1))
    if min(x.shape) > 1 and min(y.shape) > 1:
        assert ours[0].stride() == y.stride()


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize(("kernel", "channels"), [(2, 3), (2, 32), (3, 3)])
def test_zeros_infinities_and_nan_come_out_as_by_torch(name, kernel, channels):
    for layout in LAYOUTS:
        x = torch.tensor(SPECIAL)[torch.randint(len(SPECIAL), (2, channels, 9, 34))]
        x = x.contiguous(memory_format=layout)
        number = torch.full((1, 1, 1), 1.7)
        results = []
        for wanted in (True, False):
            with dispatch.use(wanted):
                results.append(OPERATORS[name](x, number, kernel, 2, 0, False))
        assert_close(*results, equal_nan=True)


@pytest.mark.parametrize("layout", LAYOUTS, ids=["contiguous", "channels_last"])
@pytest.mark.parametrize("p", [1.5, 100])
def test_the_largest_numbers_come_out_as_in_float64(layout, p):
    x = torch.tensor([[2, 1, 3, 0.5], [2, 2, 2, 2], [math.inf, 3, 0, 1]]).view(3, 1, 2, 2) * 1e38
    x = x.expand(3, 32, 2, 2).contiguous(memory_format=layout)
    functions = (
        lambda x, number: gem_pool2d(x, 2, p=p),
        lambda x, number: gem_pool2d(x, 2, p=number),
        lambda x, number: lp_pool2d(x, p, 2, form="mean"),
    )
    for function in functions:
        number, upstream = torch.full((1, 1, 1), float(p)), torch.full((3, 32, 1, 1), 2.0**-10)
        ours = answers(function, True, x, number, upstream)
        exact = answers(function, False, x.double(), number.double(), upstream)
        for a, b in zip(ours, exact, strict=True):
            assert_close(a, b.float(), rtol=1e-5 * max(1, p / 10), atol=0)


@pytest.mark.parametrize(
    "values", [[math.inf] * 3 + [1], [-math.inf] * 4, [math.inf, -math.inf, 2, math.inf]]
)
def test_an_infinite_window_has_no_gradient(values):
    x, upstream = torch.tensor(values).view(1, 1, 1, 4), torch.ones(1, 1, 1, 1)
    number = torch.full((1, 1, 1), 1.7)
    functions = [
        lambda x, p: soft_pool2d(x, (1, 4)),
        lambda x, p: soft_pool2d(x, (1, 4), beta=p),
        lambda x, p: lp_pool2d(x, 3, (1, 4)),
    ]
    for function, wanted in product(functions, (True, False)):
        assert all((slope == 0).all() for slope in answers(function, wanted, x, number, upstream)[1:])


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
@pytest.mark.parametrize("layout", LAYOUTS, ids=["contiguous", "channels_last"])
@pytest.mark.parametrize("window", [(2,), (3, 2, 1), ((2, 3), (1, 4), (1, 0), True)], ids=str)
def test_draws_are_those_of_torch_to_the_last_bit(dtype, layout, window):
    x = torch.randn(2, 5, 14, 33).to(dtype).contiguous(memory_format=layout)
    x[0, :, :4, :8] = 0
    x[1, :, 6:, 6:12] = -1
    results = []
    for wanted in (True, False):
        torch.manual_seed(3)
        x = x.detach().requires_grad_()
        with dispatch.use(wanted):
            y = stochastic_pool2d(x, *window)
            results.append((y.detach(), grad(y, x, torch.arange(y.numel()).view(y.shape).to(dtype) % 7)[0]))
        results[-1] += (torch.get_rng_state(),)
    (y, slope, state), (expected, theirs, after) = results
    assert torch.equal(y, expected) and torch.equal(slope, theirs) and torch.equal(state, after)
    assert y.stride() == expected.stride()


@pytest.mark.parametrize("name", [name for name in OPERATORS if "learnt" in name])
def test_second_gradients_are_the_numerical_ones_and_a_number_may_depend_on_the_map(name):
    x = (torch.randperm(2 * 2 * 25).double().view(2, 2, 5, 5) / 25 - 1.99).requires_grad_()
    number = torch.full((2, 1, 1), 2.6, dtype=torch.float64, requires_grad=True)
    function = lambda x, p: OPERATORS[name](x, p, 3, 2, 1, False)  # noqa: E731
    assert gradcheck(function, (x, number)) and gradgradcheck(function, (x, number))
    assert gradgradcheck(lambda x: function(x, 2 + x.mean().view(1, 1, 1)), x, fast_mode=True)


def test_nothing_is_kept_but_the_input():
    kept, x = [], torch.rand(2, 3, 8, 8, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        lp_pool2d(x, 3, 2), gem_pool2d(x, 2), soft_pool2d(x, 2)
    assert kept and all(t.data_ptr() == x.data_ptr() for t in kept)


def test_any_number_of_threads_gives_the_same(monkeypatch, set_threads):
    monkeypatch.setattr(threads, "BYTES_PER_THREAD", 1)
    number = torch.full((1, 1, 1), 2.5)
    for layout, window in product(LAYOUTS, [(3, 2, 1, False), (2, 2, 0, False)]):
        x = torch.rand(3, 4, 13, 14).contiguous(memory_format=layout)
        upstream = torch.ones(3, 4, *((7, 7) if window[0] == 3 else (6, 7)))
        for name in OPERATORS:
            results = []
            for count in (1, 3):
                set_threads(count)
                function = lambda x, p, name=name: OPERATORS[name](x, p, *window)  # noqa: E731, B023
                results.append(answers(function, True, x, number, upstream))
            assert_close(results[1], results[0], rtol=1e-5, atol=1e-6)
