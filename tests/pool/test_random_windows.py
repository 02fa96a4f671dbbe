"""Windows, rows or poolings that are drawn at random: read off, by loops, and by binomial bounds."""

import itertools
from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from random_maps import clipped_maximum
from torch.testing import assert_close

from cnnpool.pool import FractionalMaxPool2d, S3Pool2d, build
from cnnpool.pool.random_max import pseudorandom_edges, random_edges

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
    edges = pseudorandom_edges(total, count, torch.tensor([[numerator / 1021]], dtype=torch.float64))
    # Rounded up: total / count (i + u).
    exact = [-(-total * (1021 * i + numerator) // (1021 * count)) for i in range(count + 1)]
    assert edges.tolist() == [[edge - exact[0] for edge in exact]]


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


def coordinates(height, width, samples=1, channels=1):
    """x[i, j] = 1000 i + j."""
    x = 1000.0 * torch.arange(height)[:, None] + torch.arange(width)
    return x.repeat(samples, channels, 1, 1)


def kept(out):
    """Rows and columns that the map of coordinates was drawn from."""
    rows, columns = out.long() // 1000, out.long() % 1000
    assert (rows == rows[..., :1]).all() and (columns == columns[..., :1, :]).all()
    return rows[0, 0, :, 0].tolist(), columns[0, 0, 0].tolist()


@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 3), st.integers(1, 4), st.integers(0, 2**31))
@settings(max_examples=100)
def test_training_keeps_a_fixed_share_of_every_grid_in_order(height, width, stride, factor, seed):
    torch.manual_seed(seed)
    grid = stride * factor
    op = S3Pool2d(1, kernel_size=1, stride=stride, grid=grid)
    if min(height, width) < stride:
        with pytest.raises(ValueError, match=f"output would be empty for a {height}x{width} map"):
            op(coordinates(height, width))
        return
    for length, places in zip((height, width), kept(op(coordinates(height, width))), strict=True):
        assert places == sorted(set(places)) and len(places) == length // stride
        assert max(places) < length // stride * stride
        per_grid = Counter(place // grid for place in places)
        assert all(per_grid[g] == factor for g in range(length // grid))


@pytest.mark.parametrize("kernel", [1, 2, 3, 4])
def test_training_keeps_maxima_of_whole_rows_and_columns_and_evaluation_means_of_them(kernel):
    x, op = torch.randn(3, 2, 9, 12), S3Pool2d(2, kernel_size=kernel, stride=(2, 3), grid=(4, 6))
    torch.manual_seed(5)
    rows, columns = kept(S3Pool2d(1, kernel_size=1, stride=(2, 3), grid=(4, 6))(coordinates(9, 12)))
    torch.manual_seed(5)
    assert torch.equal(op(x), clipped_maximum(x, kernel, kernel)[:, :, rows][..., columns])
    assert_close(op.eval()(x), F.avg_pool2d(clipped_maximum(x, kernel, kernel), (2, 3)))


def test_every_choice_of_rows_is_equally_likely():
    op, x, draws = S3Pool2d(1, kernel_size=1, grid=4), coordinates(4, 4), 3000
    choices = Counter(tuple(tuple(axis) for axis in kept(op(x))) for _ in range(draws))
    pairs = list(itertools.combinations(range(4), 2))
    bound = 4.5 * (draws / 6 * 5 / 6) ** 0.5
    for axis in (0, 1):
        counts = Counter()
        for choice, number in choices.items():
            counts[choice[axis]] += number
        assert set(counts) == set(pairs)
        assert all(abs(count - draws / 6) < bound for count in counts.values())
    assert len(choices) == 36, "rows and columns are drawn independently"


@pytest.mark.parametrize("per", ["layer", "channel"])
def test_training_gives_max_or_average_for_each_draw(per):
    op, x = build("random_mixed", 5, per=per).train(), torch.randn(40, 5, 4, 4, dtype=torch.float64)
    out = op(x)
    is_max = (out == F.max_pool2d(x, 2)).all((2, 3))
    is_average = torch.isclose(out, F.avg_pool2d(x, 2)).all((2, 3))
    assert (is_max ^ is_average).all()
    # 200 draws, or 40: both are far more than five standard deviations from all or none.
    assert is_max.any() and is_average.any()
    mixed_within_a_sample = (is_max.any(1) & is_average.any(1)).any()
    assert mixed_within_a_sample == (per == "channel")
    taken = is_max.sum(0) if per == "channel" else is_max[:, :1].sum(0)
    assert torch.equal(op.max_draws, taken) and op.draws == 40


@pytest.mark.parametrize("evaluate", ["expected", "majority"])
def test_eval_mixes_by_the_recorded_frequencies(evaluate):
    op, x = build("random_mixed", 2, evaluate=evaluate).eval(), torch.randn(3, 2, 4, 4)
    # Untrained it expects its probability; a tie is decided for the maximum.
    for draws, maxima, expected in ((0, [0, 0], [0.5, 0.5]), (10, [2, 5], [0.2, 0.5])):
        op.draws.fill_(draws)
        op.max_draws.copy_(torch.tensor(maxima))
        share = torch.tensor(expected)[:, None, None]
        share = share if evaluate == "expected" else (share >= 0.5).float()
        assert_close(op(x), share * F.max_pool2d(x, 2) + (1 - share) * F.avg_pool2d(x, 2))


def test_half_precision_model_counts_on():
    op = build("random_mixed", 3).half().train()
    op(torch.zeros(4096, 3, 2, 2, dtype=torch.float16))
    op(torch.zeros(1, 3, 2, 2, dtype=torch.float16))
    assert op.draws == 4097


def test_draws_of_single_samples_under_vmap_are_not_counted():
    op = build("random_mixed", 3).train()
    x = torch.randn(4, 3, 8, 8, dtype=torch.float64)
    gradients = torch.func.vmap(torch.func.grad(lambda one: op(one).sum()), randomness="different")(x)
    assert (gradients.sum((1, 2, 3)) - 3 * 16).abs().max() < 1e-12
    assert op.draws == 0 and (op.max_draws == 0).all()
