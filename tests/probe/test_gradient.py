import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from cnnpool import model, pool, readout
from cnnpool.probe import GradientRouting
from cnnpool.probe.gradient import density, stage_gradients, ties


def net(operator="max", **options):
    torch.manual_seed(0)
    return model.build(
        "convnet",
        1,
        (12, 12),
        4,
        pool=lambda stage, channels: pool.build(operator, channels, **options),
        readout=lambda channels, size: readout.build("gap", channels, size),
        width=3,
    )


def batch(n=6):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, 1, 12, 12, generator=generator), torch.arange(n) % 4


def test_density_of_a_hand_worked_gradient():
    gradient = torch.tensor([[0.0, 1.0, 0.0005, 0.0], [0.0, 0.0, -2.0, 0.0]]).reshape(2, 1, 2, 2)
    result = density(gradient, epsilon=1e-3)
    assert result == {"zero_fraction": 5 / 8, "small_fraction": 6 / 8, "coverage": 2 / 4}


def test_a_gradient_of_zeros_is_all_zero_and_covers_nothing():
    result = density(torch.zeros(2, 1, 2, 2))
    assert result == {"zero_fraction": 1.0, "small_fraction": 1.0, "coverage": 0.0}


def test_ties_of_a_hand_worked_map():
    map_ = torch.tensor([[1.0, 1, 0, 0], [0, 1, 0, 0], [5, 2, 3, 3], [1, 0, 1, 2]]).reshape(1, 1, 4, 4)
    assert ties(map_, pool.build("max", 1)) == {"tied_windows": 3 / 4, "zero_windows": 1 / 4}


def test_tied_windows_of_overlapping_pooling_are_counted_per_window():
    map_ = torch.zeros(1, 1, 4, 4)
    map_[0, 0, 1, 1] = 1.0
    result = ties(map_, pool.build("max", 1, kernel_size=3, stride=1))
    assert result == {"tied_windows": 0.0, "zero_windows": 0.0}


def test_a_map_smaller_than_the_window_has_no_windows():
    assert ties(torch.ones(1, 1, 2, 2), pool.build("max", 1, kernel_size=3, padding=1))["tied_windows"] == 0


def test_gradients_are_those_of_each_sample_alone():
    cnn, (images, labels) = net(), batch()
    cnn.eval()
    taps = stage_gradients(cnn, cnn.stages, images, labels)
    for n in range(len(images)):
        seen = {}
        hook = cnn.stages["s2"].register_forward_pre_hook(lambda module, x, seen=seen: seen.update(x=x[0]))
        loss = F.cross_entropy(cnn(images[n : n + 1]), labels[n : n + 1])
        hook.remove()
        (expected,) = torch.autograd.grad(loss, seen["x"])
        torch.testing.assert_close(taps["s2"][1][n : n + 1], expected)


def test_max_pooling_without_overlap_routes_to_one_of_four_where_upstream_is_dense():
    images, labels = torch.randn(4, 2, 8, 8), torch.arange(4)

    class Bare(nn.Module):
        def __init__(self):
            super().__init__()
            self.stages = {"s1": pool.build("max", 2)}
            self.pool = self.stages["s1"]
            self.linear = nn.Linear(2 * 16, 4)

        def forward(self, x):
            return self.linear(self.pool(x).flatten(1))

    bare = Bare()
    result = GradientRouting(samples=4).measure(bare, bare.stages, images, labels)["s1"]
    assert result["zero_fraction"] == 0.75
    assert result["tied_windows"] == 0.0
    assert result["samples"] == 4


@pytest.mark.parametrize(("operator", "zero"), [("avg", 0.0), ("subsample", 0.75)])
def test_the_zero_fraction_of_the_first_stage_is_that_of_the_operator(operator, zero):
    cnn, (images, labels) = net(operator), batch()
    result = GradientRouting(samples=6).measure(cnn, cnn.stages, images, labels)
    # The last stage is followed by a convolution, whose gradient through ReLU is dense enough to reach all.
    assert result["s1"]["zero_fraction"] == pytest.approx(zero, abs=0.02)


def test_the_probe_leaves_the_model_as_it_found_it():
    cnn, (images, labels) = net(), batch()
    cnn.train()
    cnn.features[0].eval()
    before = copy.deepcopy(cnn.state_dict())
    modes = [m.training for m in cnn.modules()]
    generator = torch.get_rng_state()
    GradientRouting().measure(cnn, cnn.stages, images, labels)
    assert all(torch.equal(before[k], v) for k, v in cnn.state_dict().items())
    assert modes == [m.training for m in cnn.modules()]
    assert torch.equal(generator, torch.get_rng_state())
    assert all(p.grad is None for p in cnn.parameters())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in cnn.modules())
    assert not images.requires_grad


@pytest.mark.parametrize("options", [{"samples": 0}, {"epsilon": 2.0}, {"every_epochs": -1}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ValueError, match="gradient probe"):
        GradientRouting(**options)
