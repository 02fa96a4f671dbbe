"""Stochastic pooling: its frequencies by binomial bounds, its expectation by hand and by slow loops."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from cnnpool.pool import StochasticPool2d, stochastic_pool2d


def windows(x, op):
    """The cells of each window that lie in the map, as lists; slow and obvious."""
    (kh, kw), (sh, sw), (ph, pw) = op.kernel_size, op.stride, op.padding
    height, width = x.shape
    for i, j in itertools.product(*map(range, op.output_size(height, width))):
        rows = [r for r in range(i * sh - ph, i * sh - ph + kh) if 0 <= r < height]
        columns = [c for c in range(j * sw - pw, j * sw - pw + kw) if 0 <= c < width]
        yield [float(x[r, c]) for r in rows for c in columns]


def expectation(values):
    positive = [max(v, 0.0) for v in values]
    return sum(v * v for v in positive) / sum(positive) if sum(positive) else 0.0


@given(
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(0, 2),
    st.booleans(),
    st.integers(0, 2**31),
)
@settings(max_examples=60)
def test_every_geometry_agrees_with_slow_loops(size, kernel, stride, padding, ceil_mode, seed):
    options = {"stride": stride, "padding": min(padding, kernel // 2), "ceil_mode": ceil_mode}
    op = StochasticPool2d(1, kernel_size=kernel, **options)
    x = torch.randn(1, 1, *size, generator=torch.Generator().manual_seed(seed)).double()
    try:
        count = op.output_size(*size)
    except ValueError:
        with pytest.raises(ValueError, match="output would be empty"):
            op(x)
        return
    cells = list(windows(x[0, 0], op))
    means = torch.tensor([expectation(w) for w in cells]).double().reshape(1, 1, *count)
    assert_close(op.eval()(x), means)
    drawn = op.train()(x).flatten().tolist()
    assert all(y in w if max(w) > 0 else y == 0 for y, w in zip(drawn, cells, strict=True))
    assert all(y > 0 for y, w in zip(drawn, cells, strict=True) if max(w) > 0)


@pytest.mark.parametrize("values", [(1, 2, 3, 4), (0, 5, 0, 1), (-3, 1, 1, 0), (2, 2, 2, 2)])
def test_each_value_is_drawn_as_often_as_its_share(values):
    draws, places = 40_000, torch.tensor(values).float().reshape(1, 1, 2, 2)
    # The position, by the gradient, so that equal values are told apart.
    x = places.repeat(draws, 1, 1, 1).requires_grad_()
    StochasticPool2d(1)(x).sum().backward()
    assert set(x.grad.unique().tolist()) == {0, 1} and (x.grad.sum((1, 2, 3)) == 1).all()
    counts = x.grad.sum((0, 1)).flatten()
    share = places.clamp(min=0).flatten() / places.clamp(min=0).sum()
    bound = 4.5 * (draws * share * (1 - share)).sqrt()
    assert ((counts - draws * share).abs() <= bound).all()


def test_draws_of_neighbouring_windows_channels_and_samples_are_independent():
    # Each window draws one of two equal columns: two draws agree half the time.
    x = torch.tensor([[1.0, 2], [0, 0]]).repeat(8, 8, 16, 16)
    x[x == 2] = 1 + 1e-3
    first = (StochasticPool2d(8)(x) > 1).double()
    for other in (first.roll(1, 0), first.roll(1, 1), first.roll(1, 2), first.roll(1, 3)):
        agreement, n = (first == other).double().mean(), first.numel()
        assert abs(agreement - 0.5) < 4.5 * (0.25 / n) ** 0.5


@pytest.mark.parametrize(("uniform", "drawn"), [(0.0, 4.0), (1 - 2**-24, 1.0)])
def test_the_ends_of_the_generators_range_never_draw_a_zero(uniform, drawn, monkeypatch):
    monkeypatch.setattr(torch, "rand", lambda shape, **options: torch.full(shape, uniform, **options))
    x = torch.tensor([[0.0, 1.0], [4.0, 0.0]])[None, None]
    assert stochastic_pool2d(x, 2).item() == drawn


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("value", [3e38, 1e-37, 1e-42])
def test_numbers_at_the_ends_of_the_type_have_finite_values_and_gradients(training, value):
    x = torch.full((1, 1, 4, 4), value, requires_grad=True)
    y = StochasticPool2d(1).train(training)(x)
    assert_close(y, torch.full_like(y, value), rtol=1e-6, atol=6e-45)
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert_close(F.avg_pool2d(grad, 2, divisor_override=1), torch.ones(1, 1, 2, 2))


@pytest.mark.parametrize("training", [True, False])
def test_infinity_and_nan_come_through_and_negative_windows_are_zero_all_without_gradient(training):
    x = torch.ones(1, 1, 2, 8)
    x[..., 0, 1], x[..., 1, 3], x[..., 4:6] = torch.inf, torch.nan, -1
    y = StochasticPool2d(1).train(training)(x.requires_grad_())
    y.sum().backward()
    assert y.flatten()[0] == torch.inf and y.flatten()[1].isnan() and y.flatten()[2:].tolist() == [0, 1]
    assert (x.grad[..., :6] == 0).all() and x.grad[..., 6:].sum() == 1
