import pytest
import torch
from torch import nn
from torch.nn import functional as F

from cnnpool import pool
from cnnpool.probe import GradientRouting
from cnnpool.probe.gradient_taps import adjacent_weights, backpropagate, stage_gradients


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
    torch.manual_seed(0)
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


def test_each_operators_own_density_is_the_known_one():
    # Of 32x32 noise: exact for windows side by side, measured for overlapping ones.
    known = {(2, 2, 0): (0.25, 0), (3, 3, 0): (100 / 1024, 0), (3, 2, 1): (0.162, 0.01)}
    x = torch.randn(2, 2, 32, 32, generator=torch.Generator().manual_seed(0))
    for (kernel, stride, padding), (density, tolerance) in known.items():
        bare = Bare(kernel_size=kernel, stride=stride, padding=padding)
        bare.linear = nn.Linear(bare.pool(x)[0].numel(), 4)
        result = GradientRouting().measure(bare, bare.stages, x, torch.arange(2))["s1"]
        assert 1 - result["zero_fraction"] == pytest.approx(density, abs=tolerance + 1e-12)


def test_a_frozen_model_is_measured_too(net, batch):
    cnn, (images, labels) = net().requires_grad_(False), batch()
    result = GradientRouting(samples=6).measure(cnn, cnn.stages, images, labels)
    assert 0 < result["s1"]["zero_fraction"] < 1
    assert "weights_before" not in result["s1"]
