"""Every operator that slides a window, against its formula written out for one window in float64."""

import itertools
import math
from math import prod

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from cnnpool import pool
from cnnpool.pool.window import window_of


def weights(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def sigmoid(value):
    return 1 / (1 + math.exp(-value))


def average(values, share):
    return float(np.sum(values * share) / np.sum(share))


def soft(values, beta=1.0):
    return average(values, np.exp(beta * values))


def dice(values):
    mean = values.mean()
    pairs = [(2 * abs(v * mean), v * v + mean * mean) for v in values]
    return average(values, np.exp([top / bottom if bottom else 0.0 for top, bottom in pairs]))


def detail(values, rectify):
    gap = values - values.mean()
    gap = np.maximum(gap, 0) if rectify else gap
    d = gap**2 + 1e-3
    return average(values, 0.7 + (d / d.mean()) ** (1.6 / 2))


def ranked(values, w):
    w = w[: len(values)] / w[: len(values)].sum() * w.sum()
    return float(np.sum(np.sort(values)[::-1] * w))


def norm(x, p, kernel, stride, padding, ceil_mode, **form):
    return pool.lp_pool2d(x, p, kernel, stride, ceil_mode, padding=padding, **form)


def mixture(values, a):
    return a * values.max() + (1 - a) * values.mean()


# Name: the operator of (x, kernel, options), and one window's answer from its cells inside the map, and from
# all of its cells with zeros outside the map.
OPERATIONS = {
    "lp 3 sum": (lambda x, k, o: norm(x.abs(), 3.0, k, **o), lambda v, z: (abs(v) ** 3).sum() ** (1 / 3)),
    "lp 0.7 mean": (
        lambda x, k, o: norm(x, 0.7, k, form="mean", **o),
        lambda v, z: (abs(v) ** 0.7).mean() ** (1 / 0.7),
    ),
    "lp inf": (lambda x, k, o: norm(x, math.inf, k, **o), lambda v, z: abs(v).max()),
    "gem": (
        lambda x, k, o: pool.gem_pool2d(x, k, **o, p=2.5, eps=1e-2),
        lambda v, z: (np.maximum(v, 1e-2) ** 2.5).mean() ** (1 / 2.5),
    ),
    "median": (lambda x, k, o: pool.median_pool2d(x, k, **o), lambda v, z: np.sort(v)[(len(v) - 1) // 2]),
    "logsumexp": (
        lambda x, k, o: pool.logsumexp_pool2d(x, k, **o, r=2.0),
        lambda v, z: math.log(np.exp(2 * v).mean()) / 2,
    ),
    "soft": (lambda x, k, o: pool.soft_pool2d(x, k, **o, beta=1.3), lambda v, z: soft(v, 1.3)),
    "ada": (lambda x, k, o: pool.ada_pool2d(x, k, **o, beta=0.3), lambda v, z: 0.3 * dice(v) + 0.7 * soft(v)),
    "lip": (
        lambda x, k, o: pool.lip_pool2d(x, x.cos() * 3, k, **o),
        lambda v, z: average(v, np.exp(3 * np.cos(v))),
    ),
    "dpp symmetric": (
        lambda x, k, o: pool.dpp_pool2d(x, 0.7, 1.6, k, **o),
        lambda v, z: detail(v, rectify=False),
    ),
    "dpp asymmetric": (
        lambda x, k, o: pool.dpp_pool2d(x, 0.7, 1.6, k, **o, form="asymmetric"),
        lambda v, z: detail(v, rectify=True),
    ),
    "mixed": (lambda x, k, o: pool.mixed_pool2d(x, k, **o, mix=0.3), lambda v, z: mixture(v, 0.3)),
    "gated": (
        lambda x, k, o: pool.gated_pool2d(x, weights(1, 1, prod(k)), k, **o),
        lambda v, z: mixture(v, sigmoid(z @ weights(1, 1, len(z)).numpy()[0])),
    ),
    "tree": (
        lambda x, k, o: pool.tree_pool2d(x, weights(2, 2, 1, prod(k)), weights(3, 1, 1, prod(k)), k, **o),
        lambda v, z: tree(z, *(weights(2, 2, 1, len(z)).numpy()[:, 0] @ z)),
    ),
    "ordinal": (
        lambda x, k, o: pool.ordinal_pool2d(x, weights(4, 1, prod(k)).exp(), k, **o),
        lambda v, z: ranked(v, np.exp(weights(4, len(z)).numpy())),
    ),
    "ordinal free": (
        lambda x, k, o: pool.ordinal_pool2d(x, weights(5, 1, prod(k)), k, **o, normalise=False),
        lambda v, z: float(np.sort(v)[::-1] @ weights(5, len(z)).numpy()[: len(v)]),
    ),
}


def tree(z, left, right):
    share = sigmoid(z @ weights(3, 1, 1, len(z)).numpy()[0, 0])
    return share * left + (1 - share) * right


def slow(image, kernel, window, size, operation):
    """One answer per window of a (H, W) array, in the obvious way."""
    (kh, kw), (sh, sw), (ph, pw) = kernel, window.stride, window.padding
    out = np.zeros(size)
    for i, j in itertools.product(*map(range, size)):
        within, filled = [], np.zeros(kh * kw)
        for a, b in itertools.product(range(kh), range(kw)):
            row, column = i * sh - ph + a, j * sw - pw + b
            if 0 <= row < image.shape[0] and 0 <= column < image.shape[1]:
                within.append(image[row, column])
                filled[a * kw + b] = image[row, column]
        out[i, j] = operation(np.array(within), filled)
    return out


@st.composite
def cases(draw):
    kernel = draw(st.tuples(*[st.integers(1, 3)] * 2))
    options = {
        "stride": draw(st.tuples(*[st.integers(1, 4)] * 2)),
        "padding": tuple(draw(st.integers(0, k // 2)) for k in kernel),
        "ceil_mode": draw(st.booleans()),
    }
    shape = draw(st.tuples(*[st.integers(1, 7)] * 2))
    number = st.one_of(st.sampled_from([-1.0, 0.0, 1.0]), st.floats(-4, 4, allow_subnormal=False))
    size = prod(shape)
    values = draw(st.lists(number, min_size=size, max_size=size))
    return torch.tensor(values, dtype=torch.float64).reshape(1, 1, *shape), kernel, options


@pytest.mark.parametrize("name", OPERATIONS)
@settings(max_examples=60)
@given(case=cases())
def test_operator_follows_its_formula_at_every_window(name, case):
    x, kernel, options = case
    window = window_of(kernel, options["stride"], options["padding"], ceil_mode=options["ceil_mode"])
    size = window.output_size(*x.shape[2:])
    fast, operation = OPERATIONS[name]
    if min(size) < 1:
        with pytest.raises(ValueError, match=f"{x.shape[2]}x{x.shape[3]}"):
            fast(x, kernel, options)
        return
    expected = slow(x[0, 0].numpy(), kernel, window, size, operation)
    assert_close(fast(x, kernel, options)[0, 0], torch.from_numpy(expected), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", OPERATIONS)
def test_gradient_is_the_numerical_one_with_padding_and_overlap(name, distinct):
    fast, _ = OPERATIONS[name]
    options = {"stride": (2, 1), "padding": (1, 1), "ceil_mode": True}
    x = distinct(1, 2, 6, 5).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: fast(x, (3, 2), options), x)


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_map_without_batch_axis_is_a_sample_integers_are_refused_and_nan_spoils_its_window_alone(name):
    fast, _ = OPERATIONS[name]
    x, options = torch.rand(3, 6, 6, dtype=torch.float64), {"stride": 2, "padding": 0, "ceil_mode": False}
    assert torch.equal(fast(x, (2, 2), options), fast(x[None], (2, 2), options)[0])
    with pytest.raises(ValueError, match=r"\(2, 2\)"):
        fast(torch.zeros(2, 2, dtype=torch.float64), (2, 2), options)
    if name != "lip":
        with pytest.raises(ValueError, match="int64"):
            fast(torch.zeros(1, 1, 4, 4, dtype=torch.int64), (2, 2), options)
    x[0, 3, 2] = math.nan
    assert fast(x[None], (2, 2), options).isnan().nonzero().tolist() == [[0, 0, 1, 1]]


def test_a_size_equal_to_one_that_was_asked_before_is_still_refused_if_it_is_no_whole_number():
    x = torch.randn(1, 1, 6, 6)
    for operator in (pool.max_pool2d, pool.avg_pool2d):
        operator(x, (2, 2))
        with pytest.raises(ValueError, match="kernel_size"):
            operator(x, (2.0, 2.0))
