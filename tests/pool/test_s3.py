"""S3Pool: the rows and columns it keeps, read off maps that hold their own coordinates."""

import itertools
from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from cnnpool.pool import S3Pool2d


def coordinates(height, width, samples=1, channels=1):
    """x[i, j] = 1000 i + j."""
    x = 1000.0 * torch.arange(height)[:, None] + torch.arange(width)
    return x.repeat(samples, channels, 1, 1)


def kept(out):
    """Rows and columns that the map of coordinates was drawn from."""
    rows, columns = out.long() // 1000, out.long() % 1000
    assert (rows == rows[..., :1]).all() and (columns == columns[..., :1, :]).all()
    return rows[0, 0, :, 0].tolist(), columns[0, 0, 0].tolist()


def dense(x, kernel):
    """Maximum over the window at every pixel, by loops."""
    out, before, after = torch.empty_like(x), (kernel - 1) // 2, kernel // 2
    for i, j in itertools.product(range(x.shape[2]), range(x.shape[3])):
        rows, columns = slice(max(i - before, 0), i + after + 1), slice(max(j - before, 0), j + after + 1)
        out[..., i, j] = x[..., rows, columns].amax((2, 3))
    return out


def test_eval_mode_is_the_hand_worked_mean_of_maxima():
    x = torch.tensor([[1.0, 2, 0, 3], [4, 0, 1, 0], [0, 5, 0, 0], [2, 0, 0, 8]]).reshape(1, 1, 4, 4)
    # The maxima at every pixel: 4 2 3 3 / 5 5 1 0 / 5 5 8 8 / 2 0 8 8.
    assert S3Pool2d(1).eval()(x).tolist() == [[[[4, 1.75], [3, 8]]]]


@pytest.mark.parametrize("kernel", [1, 2, 3, 4])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_eval_mode_is_the_mean_of_the_dense_maxima(kernel, stride):
    x = torch.randn(2, 3, 7, 8).double()
    out = S3Pool2d(3, kernel_size=kernel, stride=stride).eval()(x)
    assert_close(out, F.avg_pool2d(dense(x, kernel), stride))


@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 3), st.integers(1, 4), st.integers(0, 2**31))
@settings(max_examples=100)
def test_training_keeps_a_fixed_share_of_every_grid_in_order(height, width, stride, factor, seed):
    torch.manual_seed(seed)
    grid = stride * factor
    op = S3Pool2d(1, kernel_size=1, stride=stride, grid=grid)
    if min(height, width) < stride:
        with pytest.raises(ValueError, match=f"leaves nothing of a {height}x{width} map"):
            op(coordinates(height, width))
        return
    for length, places in zip((height, width), kept(op(coordinates(height, width))), strict=True):
        assert places == sorted(set(places)) and len(places) == length // stride
        assert max(places) < length // stride * stride
        per_grid = Counter(place // grid for place in places)
        assert all(per_grid[g] == factor for g in range(length // grid))


@pytest.mark.parametrize("kernel", [1, 2, 3, 4])
def test_training_keeps_maxima_of_whole_rows_and_columns(kernel):
    x, op = torch.randn(3, 2, 9, 12), S3Pool2d(2, kernel_size=kernel, stride=(2, 3), grid=(4, 6))
    torch.manual_seed(5)
    rows, columns = kept(S3Pool2d(1, kernel_size=1, stride=(2, 3), grid=(4, 6))(coordinates(9, 12)))
    torch.manual_seed(5)
    assert torch.equal(op(x), dense(x, kernel)[:, :, rows][..., columns])


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
