"""Max pooling: what comes out, who wins, and what is refused."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import grad
from torch.testing import assert_close

from cnnpool.pool import MaxPool2d, max_pool2d, max_pool2d_with_winners

NAN, INF = math.nan, math.inf


def slow_max(x, window, ties):
    """Values and winners of one (H, W) map, cell by cell, by the definition; padding is no cell."""
    (kh, kw), (sh, sw), (ph, pw), (dh, dw), (rows, columns) = window
    values, winners = torch.zeros(rows, columns, dtype=x.dtype), torch.zeros(rows, columns, dtype=torch.int64)
    for r, c in itertools.product(range(rows), range(columns)):
        cells = {}
        for i, j in itertools.product(range(kh), range(kw)):
            y, z = r * sh - ph + i * dh, c * sw - pw + j * dw
            if 0 <= y < x.shape[0] and 0 <= z < x.shape[1]:
                cells[i * kw + j] = x[y, z].item()
        nans = [place for place, value in cells.items() if value != value]
        best = nans or [place for place, value in cells.items() if value == max(cells.values())]
        values[r, c] = cells[best[0]]
        # Among NaN torch takes the last; among equals the first.
        chosen = {
            "first": best[-1] if nans else best[0],
            "last": best[-1],
            "split": sum(1 << p for p in best),
        }
        winners[r, c] = chosen[ties]
    return values, winners


@pytest.mark.parametrize("ties", ["first", "last", "split"])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(
    "values",
    [
        (0.0, 1.0),
        (NAN, 0.0, 1.0),
        (NAN,),
        (-INF,),
        (INF, -INF, 0.0, NAN),
        (-5.0, -4.0),
        (-0.0, 0.0),
        (5e-324, 0.0),
    ],
    ids=str,
)
def test_winners_follow_the_definition_for_every_kind_of_value(ties, layout, values):
    x = torch.tensor(values, dtype=torch.float64)[torch.randint(len(values), (2, 2, 5, 6))]
    x = x.contiguous(memory_format=layout)
    for args in [
        (2,),
        (3, 2, 1),
        ((2, 3), 1, (1, 0)),
        (2, 1, 0, 2),
        (3, 3, 1, 1, True),
        ((3, 2), 2, 1, (1, 2)),
    ]:
        y, winners = max_pool2d_with_winners(x, *args, ties=ties)
        padded = [*args, *[None, 0, 1, False][len(args) - 1 :]]
        pairs = [
            v if isinstance(v, tuple) else (v, v) for v in (padded[0], padded[1] or padded[0], *padded[2:4])
        ]
        for n, c in itertools.product(range(2), range(2)):
            values_, winners_ = slow_max(x[n, c], [*pairs, y.shape[2:]], ties)
            assert_close(y[n, c], values_, rtol=0, atol=0, equal_nan=True)
            assert torch.equal(torch.signbit(y[n, c]), torch.signbit(values_)) or NAN in values
            assert torch.equal(winners[n, c].long(), winners_), args


@settings(max_examples=60)
@given(
    st.tuples(st.integers(1, 7), st.integers(1, 7)),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.integers(0, 2),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.booleans(),
)
def test_any_window_gives_torchs_answer_or_torchs_refusal(size, kernel, stride, padding, dilation, ceil_mode):
    check_against_torch(size, kernel, stride, padding, dilation, ceil_mode, ("first", "last", "split"))


def check_against_torch(size, kernel, stride, padding, dilation, ceil_mode, all_ties):
    """Whether torch answered with an index outside the map, which ours must refuse."""
    x = torch.randint(4, (2, 2, *size)).double().requires_grad_()
    args = (kernel, stride, padding, dilation, ceil_mode)
    try:
        expected, index = F.max_pool2d(x, *args, return_indices=True)
    except RuntimeError:
        with pytest.raises(ValueError):
            max_pool2d(x, *args)
        return False
    if expected.isinf().any():
        with pytest.raises(ValueError, match="wholly in the padding"):
            max_pool2d(x, *args)
        return bool((index >= size[0] * size[1]).any() or (index < 0).any())
    assert index.max() < size[0] * size[1]
    for ties in all_ties:
        y = max_pool2d(x, *args, ties=ties)
        upstream = torch.rand_like(y)
        (routed,) = grad(y, x, upstream)
        assert torch.equal(y, expected)
        assert_close(routed.sum((2, 3)), upstream.sum((2, 3)))  # nothing leaks into another channel
        if ties == "first":
            assert_close(routed, grad(expected, x, upstream, retain_graph=True)[0])
    return False


def test_large_window_on_a_small_map_finds_the_cell(distinct):
    # More cells than the map has pixels, and than a small integer holds.
    x = distinct(1, 1, 150, 150)
    x[..., 99, 99] = 3  # the last pixel that the one window covers
    x.requires_grad_()
    y, winners = max_pool2d_with_winners(x, 200, 200, 100)
    assert winners.dtype == torch.int32 and winners.item() == 199 * 200 + 199
    assert torch.equal(grad(y, x, y)[0], grad(F.max_pool2d(x, 200, 200, 100), x, y)[0])


def test_winners_are_kept_for_probes_only_when_asked():
    pool, x = MaxPool2d(3, kernel_size=3, padding=1), torch.randn(2, 3, 8, 8)
    pool(x)
    assert pool.winners is None
    pool.keep_winners = True
    y = pool(x)
    assert pool.winners.shape == y.shape and pool.winners.dtype == torch.uint8
    assert torch.equal(pool.winners, max_pool2d_with_winners(x, 3, 2, 1)[1])
