import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from cnnpool.pool import build, tree_pool2d


def test_decided_gates_select_the_leaf_they_lead_to():
    # Gates: root, then its left and its right child; an open gate leads left.
    x = torch.ones(1, 1, 2, 2, dtype=torch.float64)
    leaves = torch.arange(4.0, dtype=torch.float64)[:, None, None].expand(4, 1, 4) / 4
    for signs, expected in (((1, 1, 0), 0), ((1, -1, 0), 1), ((-1, 0, 1), 2), ((-1, 0, -1), 3)):
        gates = 1e4 * torch.tensor(signs, dtype=torch.float64)[:, None, None].expand(3, 1, 4)
        assert_close(tree_pool2d(x, leaves, gates, 2).item(), float(expected))


@pytest.mark.parametrize("levels, per, copies", [(1, "layer", 1), (2, "layer", 1), (3, "channel", 5)])
def test_parameter_count_is_that_of_the_paper(levels, per, copies):
    op = build("tree", 5, levels=levels, per=per, kernel_size=3)
    leaves = 2 ** (levels - 1)
    assert sum(p.numel() for p in op.parameters()) == copies * 9 * (2 * leaves - 1)


def test_three_levels_are_two_levels_twice_mixed_at_the_root():
    x = torch.randn(2, 3, 6, 6, dtype=torch.float64)
    leaves, gates = torch.randn(4, 3, 4, dtype=torch.float64), torch.randn(3, 3, 4, dtype=torch.float64)
    root = F.conv2d(x, gates[0].reshape(3, 1, 2, 2), stride=2, groups=3).sigmoid()
    left, right = (tree_pool2d(x, leaves[2 * i : 2 * i + 2], gates[i + 1 : i + 2], 2) for i in range(2))
    assert_close(tree_pool2d(x, leaves, gates, 2), root * left + (1 - root) * right)
