"""Routing of the loss gradient: per-sample gradients, and hand-worked sparsity, coverage and phases."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from cnnpool import pool
from cnnpool.probe import GradientRouting
from cnnpool.probe.gradient import StageRouting, sparsity
from cnnpool.probe.gradient_taps import Tap, adjacent_weights, backpropagate, stage_gradients


class Bare(nn.Module):
    """An operator right on the image, and a linear layer."""

    def __init__(self, operator="max", **options):
        super().__init__()
        self.stages = {"s1": pool.build(operator, 2, **options)}
        self.pool = self.stages["s1"]
        self.linear = nn.Linear(2 * 16, 4)

    def forward(self, x):
        return self.linear(self.pool(x).flatten(1))


class Forked(nn.Module):
    """relu(conv) goes through the operator and past it."""

    def __init__(self, inplace=False):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.relu = nn.ReLU(inplace=inplace)
        self.stages = {"s1": pool.build("subsample", 2)}
        self.pool = self.stages["s1"]
        self.linear = nn.Linear(2 * 16, 4)

    def forward(self, x):
        x = self.relu(self.conv(x))
        return self.linear(self.pool(x).flatten(1)) + x.mean((2, 3)).repeat(1, 2)


def test_gradients_are_those_of_each_sample_alone(net, batch):
    cnn, (images, labels) = net(), batch()
    cnn.eval()
    taps = stage_gradients(cnn, cnn.stages, images, labels)
    for n in range(len(images)):
        seen = {}
        hook = cnn.stages["s2"].register_forward_pre_hook(lambda module, x, seen=seen: seen.update(x=x[0]))
        loss = F.cross_entropy(cnn(images[n : n + 1]), labels[n : n + 1])
        hook.remove()
        (expected,) = torch.autograd.grad(loss, seen["x"])
        torch.testing.assert_close(taps["s2"].gradient[n : n + 1], expected)


@pytest.mark.parametrize("inplace", [False, True])
def test_the_gradient_through_a_stage_leaves_out_what_passes_it_by(inplace):
    forked, x, labels = Forked(inplace), torch.randn(3, 1, 8, 8), torch.arange(3)
    tap = stage_gradients(forked, forked.stages, x, labels)["s1"]
    assert (tap.gradient[..., ::2, ::2] != 0).all()
    assert (tap.gradient != 0).double().mean() == 0.25
    # Before the activation all ways count, and the activation's own zeros.
    assert torch.equal(tap.before != 0, tap.activation > 0)


def test_the_gradient_before_a_relu_is_that_after_it_where_it_is_open(net, batch):
    cnn, (images, labels) = net("avg"), batch()
    for tap in stage_gradients(cnn, cnn.stages, images, labels).values():
        torch.testing.assert_close(tap.before, tap.gradient * (tap.activation > 0), rtol=0, atol=0)


class Twice(nn.Module):
    """One operator at two places: behind an activation first, and then behind ``second``."""

    def __init__(self, second):
        super().__init__()
        self.pools = nn.ModuleList([pool.build("avg", 2), pool.build("avg", 2)])
        self.second, self.linear = second, nn.Linear(8, 4)

    def forward(self, x):
        return self.linear(self.pools[-1](self.second(self.pools[0](F.relu(x)))).flatten(1))


@pytest.mark.parametrize("second", [nn.ReLU(), nn.Identity()])
def test_of_an_operator_that_is_called_twice_all_values_are_of_the_last_call(second):
    model, x, labels = Twice(second), torch.randn(3, 2, 8, 8), torch.arange(3)
    wanted = stage_gradients(model, {"s1": model.pools[1]}, x, labels)["s1"]
    model.pools[0] = model.pools[1]
    tap = stage_gradients(model, {"s1": model.pools[1]}, x, labels)["s1"]
    assert torch.equal(tap.activation, wanted.activation) and torch.equal(tap.gradient, wanted.gradient)
    assert tap.before is wanted.before or torch.equal(tap.before, wanted.before)
    assert (tap.before is None) == isinstance(second, nn.Identity)


def test_weight_gradients_are_those_of_the_summed_loss(net, batch):
    cnn, (images, labels) = net(), batch()
    layers = adjacent_weights(cnn, cnn.stages, images[:1])
    convs = [module for module in cnn.modules() if isinstance(module, nn.Conv2d)]
    assert layers["s1"]["before"] is convs[0].weight and layers["s1"]["after"] is convs[1].weight
    assert layers["s2"]["before"] is convs[1].weight and layers["s2"]["after"] is convs[2].weight
    assert "own" not in layers["s1"]
    _, (got,) = backpropagate(cnn, cnn.stages, images, labels, [convs[1].weight])
    loss = F.cross_entropy(cnn.eval()(images), labels, reduction="sum")
    torch.testing.assert_close(got, torch.autograd.grad(loss, convs[1].weight)[0])


def test_an_operator_with_filters_shows_its_own(net, batch):
    cnn, (images, labels) = net("strided"), batch()
    assert adjacent_weights(cnn, cnn.stages, images[:1])["s1"]["own"] is next(cnn.stages["s1"].parameters())
    result = GradientRouting(samples=4).measure(cnn, cnn.stages, images, labels)
    assert result["s1"]["weights_own"]["zero_fraction"] < 0.5


def test_max_pooling_without_overlap_routes_to_one_of_four_where_upstream_is_dense():
    images, labels = torch.randn(4, 2, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(4)
    bare = Bare()
    result = GradientRouting(samples=4).measure(bare, bare.stages, images, labels)["s1"]
    assert (result["zero_fraction"], result["tied_windows"], result["ties"]) == (0.75, 0.0, "first")
    assert sum(result["winners"]) == pytest.approx(1)
    # No activation comes before it.
    assert "before_activation" not in result


def test_the_tie_rule_decides_the_density_on_a_flat_map():
    images, labels = torch.zeros(2, 2, 8, 8), torch.arange(2)
    for rule, zero in (("first", 0.75), ("split", 0.0)):
        bare = Bare(ties=rule)
        result = GradientRouting().measure(bare, bare.stages, images, labels)["s1"]
        assert result["zero_fraction"] == zero
        assert (result["tied_windows"], result["zero_windows"], result["ties"]) == (1.0, 1.0, rule)


def test_a_frozen_model_is_measured_too(net, batch):
    cnn, (images, labels) = net().requires_grad_(False), batch()
    result = GradientRouting(samples=6).measure(cnn, cnn.stages, images, labels)
    assert 0 < result["s1"]["zero_fraction"] < 1
    assert "weights_before" not in result["s1"]


def routed(gradient):
    """The results of a stage of stride 2 that gets ``gradient``, in two parts."""
    found = StageRouting(pool.build("subsample", 1), 1e-3)
    for some in gradient.split((len(gradient) + 1) // 2):
        found.add(Tap(torch.zeros_like(some), some, None))
    return found.result()


def coverage(gradient):
    result = routed(gradient)
    return {key: result[key] for key in ("coverage", "coverage_iid")}


def test_equal_entries_participate_by_their_share():
    for ones, ratio in [(1, 1 / 16), (4, 1 / 4), (16, 1.0)]:
        gradient = torch.zeros(1, 1, 4, 4)
        gradient.view(-1)[:ones] = -1e-30
        result = sparsity(gradient)
        assert result["participation_ratio"] == pytest.approx(ratio)
        assert result["hoyer"] == pytest.approx((4 - math.sqrt(ones)) / 3, abs=1e-12)


@given(st.integers(0, 10_000), st.floats(-6, 6))
@settings(max_examples=30)
def test_sparsity_is_the_slow_obvious_number_at_any_scale(seed, exponent):
    gradient = torch.randn(3, 2, 3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    gradient[gradient.abs() < 0.3] = 0
    result = sparsity(gradient * 10**exponent, 0.5)
    expected = {key: [] for key in result}
    for sample in gradient.numpy().reshape(3, -1):
        a, n = np.abs(sample), sample.size
        expected["zero_fraction"].append((a == 0).mean())
        expected["small_fraction"].append((a <= 0.5 * a.max()).mean())
        expected["participation_ratio"].append(a.sum() ** 2 / (n * (a**2).sum()))
        expected["hoyer"].append((n**0.5 - a.sum() / (a**2).sum() ** 0.5) / (n**0.5 - 1))
    assert result == pytest.approx({key: np.mean(value) for key, value in expected.items()}, rel=1e-9)


def test_a_gradient_of_zeros_is_as_sparse_as_can_be_and_covers_nothing():
    zeros = torch.zeros(2, 1, 2, 2)
    ones = dict.fromkeys(("zero_fraction", "small_fraction", "hoyer"), 1.0)
    assert sparsity(zeros) == ones | {"participation_ratio": 0.0}
    assert coverage(zeros) == {"coverage": 0.0, "coverage_iid": 0.0}


def test_coverage_of_a_hand_worked_batch():
    gradient = torch.tensor([[0.0, 1.0, 2.0, 0.0], [0.0, 0.0, -2.0, 0.0]]).reshape(2, 1, 2, 2)
    # Two of four inputs are reached; three of eight entries are not zero, so 1 - (5/8)^2 if independent.
    assert coverage(gradient) == {"coverage": 2 / 4, "coverage_iid": 1 - (5 / 8) ** 2}


def test_phases_served_alike_are_balanced_and_a_single_one_is_not():
    assert routed(torch.ones(2, 3, 8, 6))["phase_imbalance"] == 0.0
    single = torch.zeros(2, 3, 8, 6)
    single[..., ::2, ::2] = -1.0
    assert routed(single)["phase_imbalance"] == pytest.approx(math.sqrt(3))
    assert routed(torch.zeros(1, 1, 4, 4))["phase_imbalance"] == 0.0
    assert math.isnan(routed(torch.full((1, 1, 4, 4), math.nan))["phase_imbalance"])


def test_a_strided_3x3_convolution_serves_its_phases_one_two_two_four():
    x = torch.zeros(1, 1, 12, 12, requires_grad=True)
    weight = torch.ones(1, 1, 3, 3)
    # Circular, so that borders do not blur the counts.
    padded = torch.nn.functional.pad(x, (1, 1, 1, 1), mode="circular")
    torch.nn.functional.conv2d(padded, weight, stride=2).sum().backward()
    counts = np.array([1, 2, 2, 4])
    assert routed(x.grad)["phase_imbalance"] == pytest.approx(counts.std() / counts.mean())
