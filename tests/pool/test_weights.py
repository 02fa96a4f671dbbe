"""Windows whose cells are weighed, mixed or ordered, and learnt numbers: by hand, and at the ends."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from random_maps import maps
from torch.testing import assert_close

from cnnpool import pool
from cnnpool.pool.cells import comparisons, order
from cnnpool.pool.lip import SampleNorm
from cnnpool.pool.scalar import Fraction, Positive
from cnnpool.pool.soft import dice_mean
from cnnpool.pool.window import window_of

INF = math.inf


def tensor(values, **options):
    return torch.tensor(values, dtype=torch.float64)[None, None].requires_grad_(**options)


def dice(x):
    return dice_mean(x, window_of(2, None, 0))


def test_shares_of_maximum_and_mean_worked_by_hand():
    x, mix = tensor([[1.0, 4.0], [4.0, -1.0]]), torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    by_x, by_mix = torch.autograd.grad(pool.mixed_pool2d(x, 2, mix=mix), (x, mix))
    assert_close(by_mix.item(), 4.0 - 2.0)
    assert_close(by_x.flatten().tolist(), [0.175, 0.475, 0.175, 0.175])
    op, x = pool.build("mixed", 3, mix=1.0, learnable=False), torch.randn(1, 3, 4, 4)
    assert not list(op.parameters()) and torch.equal(op(x), F.max_pool2d(x, 2))


def test_decided_gates_select_the_leaf_they_lead_to():
    # Gates: root, then its left and its right child; an open gate leads left.
    x, leaves = tensor([[1.0, 1], [1, 1]]), torch.arange(4.0).double()[:, None, None].expand(4, 1, 4) / 4
    for signs, expected in (((1, 1, 0), 0), ((1, -1, 0), 1), ((-1, 0, 1), 2), ((-1, 0, -1), 3)):
        gates = 1e4 * torch.tensor(signs, dtype=torch.float64)[:, None, None].expand(3, 1, 4)
        assert_close(pool.tree_pool2d(x, leaves, gates, 2).item(), float(expected))


def test_ranks_start_as_the_average_borders_included():
    x = maps(2, 3, 9, 8)
    for weights in ("softmax", "free"):
        assert_close(pool.build("ordinal", 3, weights=weights).double()(x), F.avg_pool2d(x, 2))
    assert pool.build("ordinal", 3).gain == 1 and pool.build("ordinal", 3, weights="free").gain is None
    op = pool.build("ordinal", 3, kernel_size=3, padding=1).double()
    assert_close(op(x), F.avg_pool2d(x, 3, 2, 1, count_include_pad=False))


def test_each_cell_gets_the_weight_of_its_rank_even_among_equals():
    x, weight = tensor([[1.0, 1.0], [1.0, 0.0]]), torch.tensor([[0.5, 0.25, 0.15, 0.1]], dtype=torch.float64)
    pool.ordinal_pool2d(x, weight, 2).backward()
    assert x.grad[0, 0, 1, 1] == 0.1
    assert sorted(x.grad.flatten().tolist()) == sorted(weight[0].tolist())
    # Infinities pass where no cell is outside.
    assert pool.ordinal_pool2d(tensor([[INF, 1.0], [2.0, 3.0]]), torch.full((1, 4), 0.25), 2).item() == INF


def test_weights_of_any_sum_keep_the_scale_of_a_constant_map_at_the_border():
    weight = torch.tensor([[0.8, 0.6, 0.4, 0.2]], dtype=torch.float64)
    ones = tensor([[1.0] * 4] * 4)
    assert_close(pool.ordinal_pool2d(ones, weight, 2, padding=1), torch.full((1, 1, 3, 3), 2.0).double())
    bare = pool.ordinal_pool2d(ones, weight, 2, padding=1, normalise=False)
    assert_close(bare[0, 0, 0].tolist(), [0.8, 1.4, 0.8])


def test_the_gradient_of_a_median_goes_to_one_cell_that_holds_it():
    x = torch.randint(0, 2, (4, 3, 8, 8)).double().requires_grad_()
    y = pool.median_pool2d(x, 2)
    y.sum().backward()
    cells, grads = (t.unfold(2, 2, 2).unfold(3, 2, 2).flatten(4) for t in (x.detach(), x.grad))
    assert torch.equal(grads.sum(-1), torch.ones_like(y)) and set(grads.unique().tolist()) == {0.0, 1.0}
    assert torch.equal((cells * grads).sum(-1), y.detach())


def test_infinities_are_ordered_in_a_median_and_nan_wins():
    x = torch.tensor([[INF, INF, -INF, -INF], [INF, 1, -INF, -INF]])[None, None]
    assert pool.median_pool2d(x, 2).flatten().tolist() == [INF, -INF]
    x[..., 1, 1] = math.nan
    assert pool.median_pool2d(x, 2).flatten().isnan().tolist() == [True, False]


def test_equal_logits_give_the_average_and_strong_ones_select():
    x = maps(2, 3, 9, 9)
    for level in (0.0, 1e5, -INF):
        expected = F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)
        assert_close(pool.lip_pool2d(x, torch.full_like(x, level), 3, 2, 1), expected)
    assert_close(pool.lip_pool2d(x, 1e9 * x, 3, 2, 1), F.max_pool2d(x, 3, 2, 1))
    for bottleneck in (0, 2):
        op = pool.build("lip", 3, bottleneck=bottleneck).double()
        assert_close(op(x), expected)


def test_logits_are_scaled_sigmoids_of_the_normalised_convolution():
    op, x = pool.build("lip", 3, scale=7.0), torch.randn(2, 3, 8, 8)
    torch.nn.init.normal_(op.logits.conv.weight)
    normalised = F.instance_norm(F.conv2d(x, op.logits.conv.weight, padding=1))
    assert_close(op.logits(x), 7 * normalised.sigmoid(), rtol=1e-4, atol=1e-4)
    assert_close(op(x), pool.lip_pool2d(x, op.logits(x), 3, 2, 1))


def test_the_norm_of_logits_is_torchs_however_far_one_value_lies_from_the_rest():
    x = torch.zeros(1, 1, 100, 100, dtype=torch.float64)
    for outlier in (0.01, 1.0, 1e4):
        x[..., 3, 5] = outlier
        assert_close(SampleNorm(1).double()(x), F.instance_norm(x), rtol=1e-9, atol=1e-12)


def test_full_starts_as_lite_inside_the_map():
    x = torch.randn(2, 3, 9, 8)
    for options in ({}, {"kernel_size": 3, "padding": 1}, {"ceil_mode": True, "form": "asymmetric"}):
        lite, full = (pool.build("dpp", 3, full=full, **options) for full in (False, True))
        assert full(x).shape == lite(x).shape
        assert_close(full(x)[..., 1:3, 1:3], lite(x)[..., 1:3, 1:3])


def test_the_full_reference_is_a_strided_depthwise_convolution():
    op, x = pool.build("dpp", 3, full=True), torch.randn(2, 3, 8, 8)
    torch.nn.init.normal_(op.filter)
    reference = F.conv2d(x, op.filter.reshape(3, 1, 3, 3), stride=2, padding=1, groups=3)
    assert_close(op(x), pool.dpp_pool2d(x, 1.0, 1.0, 2, reference=reference))


def test_parameters_of_dpp_are_exponents_per_channel():
    op, x = pool.build("dpp", 2), torch.randn(1, 2, 4, 4)
    with torch.no_grad():
        op.log_alpha.copy_(torch.tensor([0.5, -1.0]))
        op.log_strength.copy_(torch.tensor([1.0, -2.0]))
    for channel in range(2):
        alpha, strength = op.log_alpha[channel].exp().item(), op.log_strength[channel].exp().item()
        only = slice(channel, channel + 1)
        assert_close(op(x)[:, only], pool.dpp_pool2d(x[:, only], alpha, strength, 2))


def test_small_r_is_the_average_and_huge_values_neither_overflow_nor_lose_the_maximum():
    x = torch.randn(2, 3, 8, 8)
    for r in (1e-6, 1e-20):
        assert_close(pool.logsumexp_pool2d(x, 2, r=r), F.avg_pool2d(x, 2), rtol=1e-5, atol=1e-5)
    x = torch.tensor([[1e4, 1e4 - 1], [-1e30, 0.0]])[None, None]
    expected = 1e4 + math.log((1 + math.exp(-1)) / 4)
    assert_close(pool.logsumexp_pool2d(x, 2).item(), expected, rtol=1e-6, atol=0)


def test_infinities_of_a_smooth_maximum_have_the_limit_and_a_finite_gradient():
    x = tensor([[-INF, -INF, INF, 1, -INF, 1], [-INF, -INF, 0, 2, 1, 1]])
    y = pool.logsumexp_pool2d(x, 2)
    assert_close(y.flatten().tolist(), [-INF, INF, 1 + math.log(0.75)])
    (slope,) = torch.autograd.grad(y[..., 2].sum(), x, retain_graph=True)
    assert_close(slope[0, 0, :, 4:], torch.tensor([[0, 1], [1, 1]]).double() / 3)
    assert torch.autograd.grad(y.sum(), x)[0].isfinite().all()


def test_similarity_scales_with_its_input_and_zero_over_zero_is_zero_with_a_finite_gradient():
    x = torch.randn(2, 3, 8, 8)
    for scale in (1e30, 1e-30):
        assert_close(dice(x * scale) / scale, dice(x))
    # Mean 0: all similarities are 0, so the second window's similarity half is its mean.
    x = torch.tensor([[0.0, 0, 1, -1], [0, 0, 0, 0]])[None, None].requires_grad_()
    assert_close(dice(x).flatten(), torch.zeros(2))
    assert torch.autograd.grad(pool.ada_pool2d(x, 2).sum(), x)[0].isfinite().all()


def test_the_gradient_of_subnormal_activations_is_that_of_larger_ones():
    x, tiny = torch.rand(1, 2, 8, 8), torch.finfo(torch.float32).smallest_normal

    def gradient(scale):
        scaled = (x * scale).requires_grad_()
        assert torch.autograd.grad(pool.ada_pool2d(scaled, 2).sum(), scaled)[0].isfinite().all()
        return torch.autograd.grad(dice(scaled).sum(), scaled)[0]

    for scale in (tiny, tiny / 2**8):
        assert_close(gradient(scale), gradient(1.0), rtol=1e-2, atol=1e-2)


def test_beta_per_location_follows_the_map():
    op, x = pool.build("ada", 2, size=(8, 6)), torch.randn(2, 2, 8, 6)
    with torch.no_grad():
        op.beta.raw.copy_(torch.linspace(-3, 3, 12))
    beta = torch.linspace(-3, 3, 12).sigmoid().reshape(4, 3)
    assert_close(op(x), beta * dice(x) + (1 - beta) * pool.soft_pool2d(x, 2))
    with pytest.raises(ValueError, match=r"size=\(8, 6\), got \(8, 8\)"):
        op(torch.randn(2, 2, 8, 8))


@settings(max_examples=50)
@given(value=st.floats(1e-3, 1 - 1e-3), above=st.sampled_from([0.0, 1.0]))
def test_numbers_start_at_their_value_fixed_or_learnt(value, above):
    x, start = torch.zeros(1), above + value
    assert Positive("p", start, 2, learnable=False, above=above)(x) == start
    assert_close(Positive("p", start, 2, learnable=True, above=above)(x), torch.full((2, 1, 1), start))
    assert Fraction("mix", value, (3, 1, 1), learnable=False)(x) == value
    assert_close(Fraction("mix", value, (3, 1, 1), learnable=True)(x), torch.full((3, 1, 1), value))
    exact = Fraction("mix", value, (1,), learnable=True, dtype=torch.float64)(x.double())
    assert_close(exact.item(), value, rtol=1e-12, atol=0)


@pytest.mark.parametrize("raw", [-80.0, 80.0])
def test_learnt_numbers_stay_in_range_however_far_the_raw_one_goes(raw):
    x = torch.zeros(1)
    positive, fraction = Positive("p", 3.0, 1, learnable=True), Fraction("mix", 0.5, (1,), learnable=True)
    with torch.no_grad():
        positive.raw.fill_(raw), fraction.raw.fill_(raw)
    assert 0 < positive(x).item() < float("inf")
    assert 0 <= fraction(x).item() <= 1


def test_learnt_numbers_are_one_dimensional_and_take_the_type_of_the_map():
    # Recipes exempt one-dimensional parameters from weight decay, which would pull p towards softplus(0).
    for scalar in (Positive("p", 3.0, 4, learnable=True), Fraction("mix", 0.5, (4, 1, 1), learnable=True)):
        assert scalar.raw.dim() == 1
        assert scalar.bfloat16()(torch.zeros(1)).dtype == torch.float32


@given(st.integers(2, 200), st.integers(1, 199))
@settings(max_examples=200)
def test_any_smaller_size_is_reached_by_the_quotient_of_the_sizes(length, size):
    size = min(size, length - 1)
    for operator in (pool.SpectralPool2d, pool.FractionalMaxPool2d):
        assert operator(1, stride=length / size).output_size(length, 3 * length) == (size, 3 * size)


def test_decimals_are_read_as_written():
    assert pool.SpectralPool2d(1, stride=(1.414, 2)).ratio == ((707, 500), (2, 1))
    assert pool.SpectralPool2d(1, stride=(1.414, 2.7)).stride == (1, 3)


@pytest.mark.parametrize("length", range(1, 13))
def test_network_sorts_every_sequence_of_zeros_and_ones(length):
    # A comparison network that sorts these sorts everything (the 0-1 principle).
    bits = torch.tensor(list(itertools.product([0.0, 1.0], repeat=length)))
    ordered = torch.stack(order(list(bits.unbind(1)), range(length)), 1)
    assert torch.equal(ordered, bits.sort(1).values)
    for place in range(length):
        assert torch.equal(order(list(bits.unbind(1)), range(place, place + 1))[place], ordered[:, place])
    assert comparisons(length, range(length)) <= length * (length - 1) // 2


@pytest.mark.parametrize("length", [1, 4, 9])
def test_equal_cells_stay_where_they_are(length):
    # The gradient of a tie goes where the order puts it, so this decides which of equal cells it reaches.
    parts = [torch.zeros(1, requires_grad=True) for _ in range(length)]
    for place, ordered in enumerate(order(parts, range(length))):
        grads = torch.autograd.grad(ordered, parts, retain_graph=True, materialize_grads=True)
        assert [grad.item() for grad in grads] == [float(i == place) for i in range(length)]
