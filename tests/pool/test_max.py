"""Max pooling: what comes out, who wins, where the gradient goes, and what is remembered for it."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import grad
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves

from cnnpool.pool import MaxPool2d, max_pool2d, max_pool2d_with_winners

NAN, INF = math.nan, math.inf
VALUES = [(0.0, 1.0), (NAN, 0.0, 1.0), (NAN,), (-INF,), (INF, -INF, 0.0, NAN), (-5.0, -4.0), (-0.0, 0.0)]
VALUES.append((5e-324, 0.0))
WINDOWS = [(2,), (3, 2, 1), ((2, 3), 1, (1, 0)), (2, 1, 0, 2), (3, 3, 1, 1, True), ((3, 2), 2, 1, (1, 2))]


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
        first, split = best[-1] if nans else best[0], sum(1 << p for p in best)
        chosen = {"first": first, "last": best[-1], "split": split}
        winners[r, c] = chosen[ties]
    return values, winners


@pytest.mark.parametrize("ties", ["first", "last", "split"])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("values", VALUES, ids=str)
def test_winners_follow_the_definition_for_every_kind_of_value(ties, layout, values):
    x = torch.tensor(values, dtype=torch.float64)[torch.randint(len(values), (2, 2, 5, 6))]
    x = x.contiguous(memory_format=layout)
    for args in WINDOWS:
        y, winners = max_pool2d_with_winners(x, *args, ties=ties)
        full = [*args, *[None, 0, 1, False][len(args) - 1 :]]
        pairs = [v if isinstance(v, tuple) else (v, v) for v in (full[0], full[1] or full[0], *full[2:4])]
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
    x = torch.randint(4, (2, 2, *size)).double().requires_grad_()
    args = (kernel, stride, padding, dilation, ceil_mode)
    try:
        expected, index = F.max_pool2d(x, *args, return_indices=True)
    except RuntimeError:
        with pytest.raises(ValueError):
            max_pool2d(x, *args)
        return
    if expected.isinf().any():
        with pytest.raises(ValueError, match="wholly in the padding"):
            max_pool2d(x, *args)
        return
    assert index.max() < size[0] * size[1]
    for ties in ("first", "last", "split"):
        y = max_pool2d(x, *args, ties=ties)
        upstream = torch.rand_like(y)
        (routed,) = grad(y, x, upstream)
        assert torch.equal(y, expected)
        assert_close(routed.sum((2, 3)), upstream.sum((2, 3)))  # nothing leaks into another channel
        if ties == "first":
            assert_close(routed, grad(expected, x, upstream, retain_graph=True)[0])


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


def gradient(x, upstream, *args, **options):
    x = x.clone().requires_grad_()
    return grad(max_pool2d(x, *args, **options), x, upstream)[0]


def test_overlapping_windows_add_their_gradients():
    x = torch.tensor([[1.0, 2, 3, 0], [4, 9, 5, 1], [0, 6, 7, 2], [3, 1, 2, 8]])[None]
    upstream = torch.tensor([[1.0, 10], [100, 1000]])[None]
    # Windows of 3x3 at stride 1: the 9 at (1, 1) is in all four and wins all four.
    expected = torch.zeros(1, 4, 4)
    expected[0, 1, 1] = 1111
    assert torch.equal(max_pool2d(x, 3, 1), torch.full((1, 2, 2), 9.0))
    assert torch.equal(gradient(x, upstream, 3, 1), expected)
    # Windows of 2x2 at stride 1: 9 wins four of them, 5, 6 and 8 one each, 7 two.
    upstream = torch.arange(1.0, 10).reshape(1, 3, 3)
    expected = torch.tensor([[0.0, 0, 0, 0], [0, 1 + 2 + 4 + 5, 3, 0], [0, 7, 6 + 8, 0], [0, 0, 0, 9]])[None]
    assert torch.equal(gradient(x, upstream, 2, 1), expected)


def test_ties_share_the_gradient_as_asked():
    # The left window has two equals, the right one four.
    x, upstream = torch.tensor([[[1.0, 5, 3, 3], [5, 2, 3, 3]]]), torch.tensor([[[6.0, 7.0]]])
    for ties, expected in {
        "first": [[0.0, 6, 7, 0], [0, 0, 0, 0]],
        "last": [[0.0, 0, 0, 0], [6, 0, 0, 7]],
        "split": [[0.0, 3, 1.75, 1.75], [3, 0, 1.75, 1.75]],
    }.items():
        assert torch.equal(gradient(x, upstream, 2, ties=ties), torch.tensor([expected])), ties


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("ties", ["first", "last", "split"])
def test_half_precision_gradient_of_overlapping_windows_is_rounded_once(dtype, ties):
    x = torch.randn(2, 4, 12, 12).to(dtype)
    x[1] = (x[1] * 2).round()  # ties
    upstream = (torch.randn(2, 4, 12, 12) * 10 ** torch.empty(2, 4, 12, 12).uniform_(-2, 2)).to(dtype)
    got = gradient(x, upstream, 3, 1, 1, ties=ties)
    exact = gradient(x.double(), upstream.double(), 3, 1, 1, ties=ties)
    # A sum in float32 may lie a hair beside a midpoint of the half type: that hair is all that is allowed.
    assert (got == exact.to(dtype)).double().mean() > 0.999
    assert_close(got.double(), exact, rtol=torch.finfo(dtype).eps / 2 * 1.001, atol=0)


@pytest.mark.parametrize(
    ("kernel", "ties", "bytes_each"),
    [(2, "first", 1), (16, "last", 1), (17, "first", 2), (2, "split", 1), (3, "split", 2), (5, "split", 4)],
)
def test_only_the_winners_are_kept_for_the_backward_pass(kernel, ties, bytes_each):
    x = torch.randn(2, 3, 40, 40, requires_grad=True)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        y = max_pool2d(x, kernel, ties=ties)
    assert sum(t.nbytes for t in kept) == y.numel() * bytes_each
    assert not any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(vars(y.grad_fn)))
