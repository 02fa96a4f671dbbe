"""Learnable polyphase sampling against torch's Gumbel-softmax, loops, and all circular shifts."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from cnnpool.pool import LpsPool2d, blur_pool2d


def logits_by_loop(op, x):
    sh, sw = op.stride
    columns = []
    for i in range(sh):
        for j in range(sw):
            part = F.pad(x[:, :, i::sh, j::sw], (1, 1, 1, 1), mode="circular")
            hidden = F.conv2d(part, op.first.weight, op.first.bias).relu()
            wrapped = F.pad(hidden, (1, 1, 1, 1), mode="circular")
            columns.append(F.conv2d(wrapped, op.second.weight, op.second.bias).mean((1, 2, 3)))
    return torch.stack(columns, 1)


@pytest.mark.parametrize("stride", [2, 3, (2, 3)])
def test_evaluation_keeps_the_phase_of_the_largest_logit(stride):
    op, x = (
        LpsPool2d(3, stride=stride, hidden=5).double().eval(),
        torch.randn(6, 3, 12, 6, dtype=torch.float64),
    )
    logits = logits_by_loop(op, x)
    assert_close(op.logits(x), logits)
    y, (sh, sw) = op(x), op.stride
    for sample, k in enumerate(logits.argmax(1).tolist()):
        assert torch.equal(y[sample], x[sample, :, k // sw :: sh, k % sw :: sw])
    assert torch.equal(op.choose(x), logits.argmax(1))


@pytest.mark.parametrize("tau", [0.3, 1.0, 4.0])
def test_training_mixes_by_torchs_gumbel_softmax_of_the_same_seed(tau):
    op, x = LpsPool2d(3, tau=tau, filter_size=3).double(), torch.randn(5, 3, 8, 6, dtype=torch.float64)
    torch.manual_seed(3)
    y = op(x)
    torch.manual_seed(3)
    weights = F.gumbel_softmax(logits_by_loop(op, x), tau)
    blurred = blur_pool2d(x, 3, 1, "circular")
    phases = torch.stack([blurred[:, :, i::2, j::2] for i in range(2) for j in range(2)], 1)
    assert_close(y, torch.einsum("nk,nkchw->nchw", weights, phases))


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("filter_size", [1, 3])
def test_every_circular_shift_gives_the_same_output_up_to_a_roll_in_evaluation(dtype, filter_size):
    op = LpsPool2d(2, filter_size=filter_size).to(dtype).eval()
    x = torch.randn(4, 2, 8, 6, dtype=dtype)
    y = op(x)
    rolled = torch.stack([y.roll(s, (2, 3)) for s in itertools.product(range(4), range(3))])
    for shift in itertools.product(range(8), range(6)):
        z = op(x.roll(shift, (2, 3)))
        assert (rolled == z).flatten(2).all(2).any(0).all(), shift


def test_a_residual_branch_samples_the_same_mixture():
    op, x = LpsPool2d(3).double(), torch.randn(4, 3, 6, 6, dtype=torch.float64)
    op.keep_phase = True
    y = op(x)
    assert op.phase.shape == (4, 4) and op.phase.requires_grad
    assert_close(op(x, op.phase), y)
    assert_close(LpsPool2d(6)(torch.cat([x, -x], 1), op.phase), torch.cat([y, -y], 1))


@torch.no_grad()
def test_phases_are_weighed_in_float32_under_autocast_and_in_half_precision():
    def weights(op, x):
        torch.manual_seed(5)
        return op.choose(x)

    op, x = LpsPool2d(8), torch.randn(16, 8, 8, 8)
    expected = weights(op, x)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(weights(op, x), expected)
    half = x.bfloat16()
    in_half = weights(op.bfloat16(), half)
    assert in_half.dtype == torch.float32
    assert torch.equal(in_half, weights(op.float(), half.float()))


def test_flops_are_those_of_the_two_convolutions_and_the_blur():
    assert LpsPool2d(4, hidden=2).flops(7, 8) == 64 * 2 * (4 * 2 * 9 + 2 * 9)
    assert LpsPool2d(4, hidden=2, filter_size=3).flops(8, 8) - LpsPool2d(4, hidden=2).flops(8, 8) == 64 * 40
