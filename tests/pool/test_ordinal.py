import torch
import torch.nn.functional as F
from torch.testing import assert_close

from cnnpool.pool import build, ordinal_pool2d


def test_starts_as_the_average_borders_included():
    x = torch.randn(2, 3, 9, 8, dtype=torch.float64)
    for weights in ("softmax", "free"):
        assert_close(build("ordinal", 3, weights=weights).double()(x), F.avg_pool2d(x, 2))
    assert build("ordinal", 3).gain == 1 and build("ordinal", 3, weights="free").gain is None
    op = build("ordinal", 3, kernel_size=3, padding=1).double()
    assert_close(op(x), F.avg_pool2d(x, 3, 2, 1, count_include_pad=False))


def test_gradient_gives_each_cell_the_weight_of_its_rank_even_among_equals():
    x = torch.tensor([[1.0, 1.0], [1.0, 0.0]], dtype=torch.float64)[None, None].requires_grad_()
    weight = torch.tensor([[0.5, 0.25, 0.15, 0.1]], dtype=torch.float64)
    ordinal_pool2d(x, weight, 2).backward()
    assert x.grad[0, 0, 1, 1] == 0.1
    assert sorted(x.grad.flatten().tolist()) == sorted(weight[0].tolist())


def test_infinities_pass_where_no_cell_is_outside():
    x = torch.tensor([[float("inf"), 1.0], [2.0, 3.0]])[None, None]
    assert ordinal_pool2d(x, torch.full((1, 4), 0.25), 2).item() == float("inf")
