"""Fractional max pooling: its edges against exact fractions, its maxima against loops and torch."""

import itertools
import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cnnpool.pool import FractionalMaxPool2d
from cnnpool.pool.fractional_max import pseudorandom_edges, random_edges

CPU = torch.device("cpu")


def loops(x, rows, columns, overlapping):
    """Maxima of one sample (C, H, W) between edges."""
    out = x.new_empty(x.shape[0], len(rows) - 1, len(columns) - 1)
    for i, j in itertools.product(range(len(rows) - 1), range(len(columns) - 1)):
        window = x[:, rows[i] : rows[i + 1] + overlapping, columns[j] : columns[j + 1] + overlapping]
        out[:, i, j] = window.amax((1, 2))
    return out


def drawn(op, x, seed):
    """The edges that ``op`` draws first for columns, then for rows."""
    (rows, columns), samples = op.output_size(*x.shape[2:]), x.shape[0]
    torch.manual_seed(seed)
    across, down = op.edges(x.shape[3], columns, samples, CPU), op.edges(x.shape[2], rows, samples, CPU)
    return down.expand(samples, -1).tolist(), across.expand(samples, -1).tolist()


def test_eval_mode_is_the_hand_worked_example():
    x = torch.arange(16.0).reshape(1, 1, 4, 4).flip(3)
    # Edges ceil(1.5 (i + 1/2)) - 1 = 0, 2, 3: windows of the pixels 0 1 2 and 2 3 along both axes.
    op = FractionalMaxPool2d(1).eval()
    assert op.edges(4, 2, 1, CPU).tolist() == [[0, 2, 3]]
    assert op(x).tolist() == [[[[11, 9], [15, 13]]]]


@given(st.integers(1, 60), st.data())
@settings(max_examples=100)
def test_random_edges_rise_by_floor_or_ceil_to_the_end(count, data):
    total = data.draw(st.integers(count, 4 * count))
    torch.manual_seed(data.draw(st.integers(0, 2**31)))
    edges = random_edges(total, count, 3, CPU)
    steps = edges.diff(dim=1)
    assert (edges[:, 0] == 0).all() and (edges[:, -1] == total).all() and edges.shape == (3, count + 1)
    assert ((steps == total // count).sum(1) == count - total % count).all()
    assert ((steps == total // count + 1).sum(1) == total % count).all()


@given(st.integers(1, 500), st.integers(0, 1020), st.data())
@settings(max_examples=200)
def test_pseudorandom_edges_are_those_of_exact_fractions(count, numerator, data):
    # A prime denominator that divides no total: no edge is so near a whole number that rounding matters.
    total = data.draw(st.integers(count, min(3 * count, 1020)).filter(lambda n: n % 1021))
    u, a = Fraction(numerator, 1021), Fraction(total, count)
    exact = [math.ceil(a * (i + u)) - math.ceil(a * u) for i in range(count + 1)]
    edges = pseudorandom_edges(total, count, torch.tensor([[float(u)]], dtype=torch.float64))
    assert edges.tolist() == [exact]


@given(st.integers(1, 3000), st.floats(0, 1, exclude_max=True), st.data())
@settings(max_examples=200)
def test_pseudorandom_edges_survive_rounding(count, u, data):
    total = data.draw(st.integers(count, 3 * count))
    edges = pseudorandom_edges(total, count, torch.tensor([[u]], dtype=torch.float32))
    assert edges[0, 0] == 0 and edges[0, -1] == total
    assert set(edges.diff(dim=1).unique().tolist()) <= {total // count, total // count + (total % count > 0)}


@pytest.mark.parametrize("mode", ["random", "pseudorandom"])
@pytest.mark.parametrize("overlapping", [True, False])
@pytest.mark.parametrize("stride", [1.414, 2, (1.2, 2.6)])
@pytest.mark.parametrize("training", [True, False])
def test_maxima_are_those_of_slow_loops(mode, overlapping, stride, training, distinct):
    x = distinct(3, 2, 11, 16)
    op = FractionalMaxPool2d(2, stride=stride, mode=mode, overlapping=overlapping).train(training)
    down, across = drawn(op, x, 7)
    torch.manual_seed(7)
    expected = [loops(*sample, overlapping) for sample in zip(x, down, across, strict=True)]
    assert torch.equal(op(x), torch.stack(expected))


def test_default_draws_the_place_of_the_short_window_evenly():
    op, samples = FractionalMaxPool2d(1), 16_000
    edges = op.edges(16, 8, samples, CPU)
    assert edges[:, -1].unique().tolist() == [15]
    counts = (edges.diff(dim=1) == 1).sum(0)
    assert counts.sum() == samples
    bound = 4.5 * (samples / 8 * 7 / 8) ** 0.5
    assert ((counts - samples / 8).abs() < bound).all()


def test_channels_share_the_windows_and_samples_do_not():
    x = torch.rand(1, 1, 16, 16).expand(8, 4, -1, -1)
    out = FractionalMaxPool2d(4)(x)
    assert (out == out[:, :1]).all()
    assert len({tuple(sample.flatten().tolist()) for sample in out[:, 0]}) > 1
