import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from cnnpool.pool import build, ordinal_pool2d


def test_hand_worked_example():
    x = torch.tensor([[1.0, 2, 5, 5], [4, 3, 5, 5]])[None, None]
    weight = torch.tensor([[0.4, 0.3, 0.2, 0.1]])
    assert_close(ordinal_pool2d(x, weight, 2).flatten(), torch.tensor([3.0, 5.0]))


def test_starts_as_the_average_borders_included():
    x = torch.randn(2, 3, 9, 8, dtype=torch.float64)
    for weights in ("softmax", "free"):
        assert_close(build("ordinal", 3, weights=weights).double()(x), F.avg_pool2d(x, 2))
    op = build("ordinal", 3, kernel_size=3, padding=1).double()
    assert_close(op(x), F.avg_pool2d(x, 3, 2, 1, count_include_pad=False))


def test_gradient_gives_each_cell_the_weight_of_its_rank_even_among_equals():
    x = torch.tensor([[1.0, 1.0], [1.0, 0.0]], dtype=torch.float64)[None, None].requires_grad_()
    weight = torch.tensor([[0.5, 0.25, 0.15, 0.1]], dtype=torch.float64)
    ordinal_pool2d(x, weight, 2).backward()
    assert x.grad[0, 0, 1, 1] == 0.1
    assert sorted(x.grad.flatten().tolist()) == sorted(weight[0].tolist())


def test_gradient_of_the_weights_is_the_sorted_window():
    x = torch.tensor([[1.0, 4.0], [3.0, 2.0]])[None, None]
    weight = torch.full((1, 4), 0.25, requires_grad=True)
    ordinal_pool2d(x, weight, 2).backward()
    assert weight.grad.tolist() == [[4, 3, 2, 1]]


def test_infinities_pass_where_no_cell_is_outside():
    x = torch.tensor([[float("inf"), 1.0], [2.0, 3.0]])[None, None]
    assert ordinal_pool2d(x, torch.full((1, 4), 0.25), 2).item() == float("inf")


@pytest.mark.parametrize("weights", ["softmax", "free"])
@pytest.mark.parametrize("per, copies", [("layer", 1), ("channel", 3)])
def test_weights_learn_to_be_those_of_the_maximum(weights, per, copies):
    torch.manual_seed(0)
    op, x = build("ordinal", 3, weights=weights, per=per), torch.randn(16, 3, 8, 8)
    assert op.weight.shape == (copies, 4)
    optimiser = torch.optim.Adam(op.parameters(), lr=0.1)
    for _ in range(60):
        optimiser.zero_grad()
        (op(x) - F.max_pool2d(x, 2)).square().mean().backward()
        optimiser.step()
    weight = op.weight.detach().softmax(1) if weights == "softmax" else op.weight.detach()
    assert (weight[:, 0] > 0.9).all() and (weight[:, 1:].abs() < 0.1).all()


def test_free_weights_promise_no_gain():
    assert build("ordinal", 3).gain == 1 and build("ordinal", 3, weights="free").gain is None
