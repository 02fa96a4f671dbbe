"""Max pooling: where the gradient goes, and what is remembered for it."""

import pytest
import torch
from torch.autograd import grad
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves

from cnnpool.pool import dispatch, max_pool2d


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


@pytest.mark.parametrize(
    ("ties", "expected"),
    [
        ("first", [[0.0, 6, 7, 0], [0, 0, 0, 0]]),
        ("last", [[0.0, 0, 0, 0], [6, 0, 0, 7]]),
        ("split", [[0.0, 3, 1.75, 1.75], [3, 0, 1.75, 1.75]]),
    ],
)
def test_ties_share_the_gradient_as_asked(ties, expected):
    # The left window has two equals, the right one four.
    x = torch.tensor([[[1.0, 5, 3, 3], [5, 2, 3, 3]]])
    assert torch.equal(gradient(x, torch.tensor([[[6.0, 7.0]]]), 2, ties=ties), torch.tensor([expected]))


@pytest.mark.parametrize("ties", ["first", "last", "split"])
def test_gradient_has_the_layout_of_the_input_whatever_layout_it_arrives_in(ties):
    x = torch.randn(2, 3, 6, 8)
    for layout in (torch.contiguous_format, torch.channels_last):
        for upstream in (
            torch.randn(2, 3, 3, 4),
            torch.randn(2, 3, 4, 3).mT,
            torch.ones(()).expand(2, 3, 3, 4),
        ):
            got = gradient(x.contiguous(memory_format=layout), upstream, 2, ties=ties)
            assert got.is_contiguous(memory_format=layout)
            assert torch.equal(got, gradient(x, upstream.contiguous(), 2, ties=ties))


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


def test_backward_repeats_and_notices_nothing_of_a_changed_input():
    x = torch.randn(1, 2, 4, 4, requires_grad=True)
    hidden = x * 1
    y = max_pool2d(hidden, 2)
    hidden.data.zero_()  # not needed any more
    first = grad(y.sum(), x, retain_graph=True)[0]
    assert torch.equal(first, grad(y.sum(), x)[0])
    assert first.sum() == y.numel()


@pytest.mark.parametrize(
    ("kernel", "ties", "bytes_each"),
    [(2, "first", 1), (16, "last", 1), (17, "first", 2), (2, "split", 1), (3, "split", 2), (5, "split", 4)],
)
def test_only_the_winners_are_kept_for_the_backward_pass(kernel, ties, bytes_each):
    x = torch.randn(2, 3, 40, 40, requires_grad=True)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        y = max_pool2d(x, kernel, ties=ties)
    if kernel == 2 and ties == "first" and dispatch.kernels("max_2x2_packed", x) is not None:
        bytes_each = 1 / 4
    assert sum(t.nbytes for t in kept) == y.numel() * bytes_each
    assert not any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(vars(y.grad_fn)))
