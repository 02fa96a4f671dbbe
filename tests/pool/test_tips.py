"""Translation invariant polyphase sampling against loops, its limits, and all circular shifts."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from cnnpool.pool import TipsPool2d, blur_pool2d


def weights_by_loop(op, x):
    """(N, P, C)."""
    wrapped = F.pad(x, (1, 1, 1, 1), mode="circular")
    response = F.conv2d(wrapped, op.conv.weight, groups=op.channels).relu()
    (sh, sw), means = op.stride, []
    for i in range(sh):
        for j in range(sw):
            means.append(response[:, :, i::sh, j::sw].mean((2, 3)) * op.scale)
    return torch.stack(means, 1).softmax(1)


def test_four_by_four_worked_by_hand():
    op = TipsPool2d(1, kernel_size=1).double()
    x = torch.arange(16.0, dtype=torch.float64).reshape(1, 1, 4, 4)
    with torch.no_grad():
        op.conv.weight.fill_(1)
        op.scale.fill_(torch.tensor(2.0).log().item())
    # The phases' means are 5, 6, 9 and 10, so their weights are as 2^5 : 2^6 : 2^9 : 2^10 = 1 : 2 : 16 : 32.
    offset = (0 * 1 + 1 * 2 + 4 * 16 + 5 * 32) / 51
    assert_close(op(x).flatten(), torch.tensor([0, 2, 8, 10], dtype=torch.float64) + offset)


@pytest.mark.parametrize("stride", [1, 2, 3, (2, 3)])
@pytest.mark.parametrize("filter_size", [1, 3])
def test_it_is_the_sum_of_the_phases_by_their_weights(stride, filter_size):
    op, x = (
        TipsPool2d(3, stride=stride, filter_size=filter_size).double(),
        torch.randn(2, 3, 12, 6, dtype=torch.float64),
    )
    (sh, sw), weights = op.stride, weights_by_loop(op, x)
    blurred = blur_pool2d(x, filter_size, 1, "circular")
    phases = torch.stack([blurred[:, :, i::sh, j::sw] for i in range(sh) for j in range(sw)], 1)
    assert_close(op.choose(x), weights)
    assert_close(op(x), torch.einsum("nkc,nkchw->nchw", weights, phases))


def test_weights_follow_the_phases_so_the_mean_is_the_same_under_every_shift():
    op, x = TipsPool2d(3).double(), torch.randn(2, 3, 8, 6, dtype=torch.float64)
    torch.nn.init.constant_(op.scale, 5.0)
    weights, mean = op.choose(x), op(x).mean((2, 3))
    assert (op(x).mean((2, 3)) - x.mean((2, 3))).abs().max() > 1e-3
    for rows, columns in itertools.product(range(8), range(6)):
        shifted = x.roll((rows, columns), (2, 3))
        moved = weights.unflatten(1, (2, 2)).roll((rows, columns), (1, 2)).flatten(1, 2)
        assert_close(op.choose(shifted), moved)
        assert_close(op(shifted).mean((2, 3)), mean)


def test_a_residual_branch_samples_the_same_mixture():
    op, x = TipsPool2d(3).double(), torch.randn(4, 3, 6, 6, dtype=torch.float64)
    op.keep_phase = True
    y = op(x)
    assert_close(TipsPool2d(3)(-x, op.phase), -y)
    with pytest.raises(ValueError, match=r"phase must be \(4, 4\) or \(4, 4, 5\), got \(4, 4, 3\)"):
        TipsPool2d(5)(torch.randn(4, 5, 6, 6, dtype=torch.float64), op.phase)


def test_flops_are_the_convolution_the_mean_the_weighted_sum_and_the_blur():
    assert TipsPool2d(3).flops(7, 8) == 3 * 64 * (2 * 9 + 4)
    assert TipsPool2d(3, filter_size=3).flops(8, 8) == 3 * 64 * (2 * 9 + 4 + 10)
