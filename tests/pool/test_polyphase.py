"""Learnt polyphase sampling, that behind a maximum, and the way up, under all circular shifts."""

import copy
import itertools
import pickle

import pytest
import torch
import torch.nn.functional as F
from random_maps import maps
from torch.testing import assert_close

from cnnpool import pool
from cnnpool.pool.autograd.phases import sample_phase


def phases(x, sh=2, sw=2):
    """(N, P, C, H', W')."""
    return torch.stack([x[:, :, i::sh, j::sw] for i in range(sh) for j in range(sw)], 1)


def wrapped(x):
    return F.pad(x, (1, 1, 1, 1), mode="circular")


def logits_by_loop(op, x):
    columns = []
    for part in phases(x, *op.stride).unbind(1):
        hidden = F.conv2d(wrapped(part), op.first.weight, op.first.bias).relu()
        columns.append(F.conv2d(wrapped(hidden), op.second.weight, op.second.bias).mean((1, 2, 3)))
    return torch.stack(columns, 1)


def weights_by_loop(op, x):
    """(N, P, C)."""
    response = F.conv2d(wrapped(x), op.conv.weight, groups=op.channels).relu()
    return (phases(response, *op.stride).mean((3, 4)) * op.scale).softmax(1)


@pytest.mark.parametrize("stride", [2, 3, (2, 3)])
def test_evaluation_keeps_the_phase_of_the_largest_logit(stride):
    op, x = pool.LpsPool2d(3, stride=stride, hidden=5).double().eval(), maps(6, 3, 12, 6)
    logits = logits_by_loop(op, x)
    assert_close(op.logits(x), logits)
    y, taken = op(x), phases(x, *op.stride)
    for sample, k in enumerate(logits.argmax(1).tolist()):
        assert torch.equal(y[sample], taken[sample, k])
    assert torch.equal(op.choose(x), logits.argmax(1))


@pytest.mark.parametrize("tau", [0.3, 1.0, 4.0])
def test_training_mixes_by_torchs_gumbel_softmax_of_the_same_seed(tau):
    op, x = pool.LpsPool2d(3, tau=tau, filter_size=3).double(), maps(5, 3, 8, 6)
    torch.manual_seed(3)
    y = op(x)
    torch.manual_seed(3)
    weights = F.gumbel_softmax(logits_by_loop(op, x), tau)
    blurred = phases(pool.blur_pool2d(x, 3, 1, "circular"))
    assert_close(y, torch.einsum("nk,nkchw->nchw", weights, blurred))


@torch.no_grad()
def test_phases_are_weighed_in_float32_under_autocast_and_in_half_precision():
    def weights(op, x):
        torch.manual_seed(5)
        return op.choose(x)

    op, x = pool.LpsPool2d(8), maps(16, 8, 8, 8, dtype=torch.float32)
    expected = weights(op, x)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(weights(op, x), expected)
    half = x.bfloat16()
    in_half = weights(op.bfloat16(), half)
    assert in_half.dtype == torch.float32
    assert torch.equal(in_half, weights(op.float(), half.float()))


def test_weights_of_tips_worked_by_hand():
    op = pool.TipsPool2d(1, kernel_size=1).double()
    x = torch.arange(16.0, dtype=torch.float64).reshape(1, 1, 4, 4)
    with torch.no_grad():
        op.conv.weight.fill_(1)
        op.scale.fill_(torch.tensor(2.0).log().item())
    # The phases' means are 5, 6, 9 and 10, so their weights are as 2^5 : 2^6 : 2^9 : 2^10 = 1 : 2 : 16 : 32.
    offset = (0 * 1 + 1 * 2 + 4 * 16 + 5 * 32) / 51
    assert_close(op(x).flatten(), torch.tensor([0, 2, 8, 10], dtype=torch.float64) + offset)


@pytest.mark.parametrize("stride", [1, 2, 3, (2, 3)])
@pytest.mark.parametrize("filter_size", [1, 3])
def test_tips_is_the_sum_of_the_phases_by_their_weights(stride, filter_size):
    op, x = pool.TipsPool2d(3, stride=stride, filter_size=filter_size).double(), maps(2, 3, 12, 6)
    weights = weights_by_loop(op, x)
    blurred = phases(pool.blur_pool2d(x, filter_size, 1, "circular"), *op.stride)
    assert_close(op.choose(x), weights)
    assert_close(op(x), torch.einsum("nkc,nkchw->nchw", weights, blurred))


def test_weights_follow_the_phases_so_the_mean_is_the_same_under_every_shift():
    op, x = pool.TipsPool2d(3).double(), maps(2, 3, 8, 6)
    torch.nn.init.constant_(op.scale, 5.0)
    weights, mean = op.choose(x), op(x).mean((2, 3))
    assert (op(x).mean((2, 3)) - x.mean((2, 3))).abs().max() > 1e-3
    for shift in itertools.product(range(8), range(6)):
        shifted = x.roll(shift, (2, 3))
        moved = weights.unflatten(1, (2, 2)).roll(shift, (1, 2)).flatten(1, 2)
        assert_close(op.choose(shifted), moved)
        assert_close(op(shifted).mean((2, 3)), mean)


def test_a_residual_branch_samples_the_same_mixture():
    for operator in (pool.LpsPool2d, pool.TipsPool2d):
        op, x = operator(3).double(), maps(4, 3, 6, 6)
        op.keep_phase = True
        y = op(x)
        assert op.phase.requires_grad
        assert_close(op(x, op.phase), y)
        assert_close(operator(3)(-x, op.phase), -y)
        for copied in (copy.deepcopy(op), pickle.loads(pickle.dumps(op))):
            assert copied.phase is None and copied.keep_phase and op.phase is not None
            assert_close(copied(x, op.phase), y)
    with pytest.raises(ValueError, match=r"phase must be \(4, 4\) or \(4, 4, 5\), got \(4, 4, 3\)"):
        pool.TipsPool2d(5)(maps(4, 5, 6, 6), op.phase)


def test_flops_are_those_of_the_convolutions_the_weights_and_the_blur():
    assert pool.LpsPool2d(4, hidden=2).flops(7, 8) == 64 * 2 * (4 * 2 * 9 + 2 * 9)
    blurring = pool.LpsPool2d(4, hidden=2, filter_size=3)
    assert blurring.flops(8, 8) - pool.LpsPool2d(4, hidden=2).flops(8, 8) == 64 * 40
    assert pool.TipsPool2d(3).flops(7, 8) == 3 * 64 * (2 * 9 + 4)
    assert pool.TipsPool2d(3, filter_size=3).flops(8, 8) == 3 * 64 * (2 * 9 + 4 + 10)


@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 2), (2, 3), (1, 2)])
def test_max_aps_is_the_maximum_of_circular_windows_then_the_phase_of_largest_norm(kernel, stride):
    x = maps(1, 1, 12, 12)
    dense = torch.stack([x.roll((-i, -j), (2, 3)) for i in range(kernel) for j in range(kernel)]).amax(0)
    expected = max(phases(dense, stride, stride)[0], key=lambda phase: phase.square().sum())
    assert torch.equal(pool.MaxApsPool2d(1, kernel_size=kernel, stride=stride)(x)[0], expected)


def test_a_window_of_one_pixel_is_aps_and_a_residual_branch_takes_the_same_phase():
    x, op = maps(4, 3, 8, 8), pool.MaxApsPool2d(3)
    assert torch.equal(pool.MaxApsPool2d(3, kernel_size=1)(x), pool.ApsPool2d(3)(x))
    assert torch.equal(op(x, op.choose(x)), op(x))


def test_the_gradient_goes_to_the_winners_of_the_chosen_phase():
    x = torch.tensor([[1.0, 2, 0, 0], [0, 0, 0, 9], [0, 0, 0, 0], [0, 3, 0, 0]]).view(1, 1, 4, 4)
    x.requires_grad_()
    y = pool.MaxApsPool2d(1)(x)
    y.backward(torch.ones_like(y))
    # Phase (0, 0), the first of two of norm 94; of its all-zero window the first pixel wins.
    assert y.flatten().tolist() == [2.0, 9.0, 3.0, 0.0]
    assert x.grad[0, 0].nonzero().tolist() == [[0, 1], [1, 3], [2, 2], [3, 1]]


def test_each_value_goes_back_where_the_phase_was_taken_and_weights_share_it_out():
    x, phase, stride = maps(2, 3, 2, 4), torch.tensor([4, 1]), (2, 3)
    expected = torch.zeros(2, 3, 4, 12, dtype=torch.float64)
    for n, c, i, j in itertools.product(*map(range, x.shape)):
        p, q = divmod(int(phase[n]), 3)
        expected[n, c, 2 * i + p, 3 * j + q] = x[n, c, i, j]
    for places in (phase, phase.int(), phase.byte()):
        assert torch.equal(pool.polyphase_unpool2d(x, places, stride), expected)
        assert torch.equal(sample_phase(expected, places, stride), x)
    assert torch.equal(pool.polyphase_unpool2d(x, F.one_hot(phase, 6).double(), stride), expected)
    per_channel = maps(2, 6, 3)
    spread = pool.polyphase_unpool2d(x, per_channel, stride)
    for k in range(6):
        share = x * per_channel[:, k, :, None, None]
        assert_close(sample_phase(spread, torch.tensor([k, k]), stride), share)


def test_the_gradient_of_the_way_up_is_the_sampling_and_formats_stay():
    x = maps(1, 2, 3, 3).contiguous(memory_format=torch.channels_last).requires_grad_()
    phase, grad = torch.tensor([2]), maps(1, 2, 6, 6)
    y = pool.polyphase_unpool2d(x, phase)
    (back,) = torch.autograd.grad(y, x, grad)
    assert torch.equal(back, sample_phase(grad, phase, (2, 2)))
    assert y.is_contiguous(memory_format=torch.channels_last)


def test_a_blur_fills_the_zeros_and_keeps_a_constant():
    y = pool.polyphase_unpool2d(torch.ones(1, 2, 3, 3), torch.tensor([3]), filter_size=3, output_size=(5, 6))
    assert y.shape == (1, 2, 5, 6) and torch.equal(y, torch.ones_like(y))


@pytest.mark.parametrize("name", ["aps", "lps", "max_aps"])
@pytest.mark.parametrize("filter_size", [1, 3])
def test_a_pair_commutes_with_every_circular_shift(name, filter_size):
    op, x = pool.build(name, 4).double().eval(), maps(2, 4, 8, 12)

    def pair(x):
        phase = op.choose(x)
        return pool.polyphase_unpool2d(op(x, phase), phase, filter_size=filter_size)

    expected = pair(x)
    for shift in itertools.product(range(8), range(12)):
        assert torch.equal(pair(x.roll(shift, (2, 3))), expected.roll(shift, (2, 3)))
