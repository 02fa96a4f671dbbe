"""The images that probes look at during training: no more than one of them needs."""

import pytest
import torch

from cnnpool import data, model, pool, readout
from cnnpool.fit.results import LONGEST, ROUTED, SAMPLES, looked_at, routing_of, sample
from cnnpool.probe import Batch, GradientRouting, Probe, ShiftInvariance
from cnnpool.probe.gradient_taps import stage_gradients


class Bare(Probe):
    section = "bare"

    def read(self, model, stages, batch):
        return {}


def test_the_most_images_that_a_probe_counts_or_all():
    gradient = GradientRouting(samples=7)
    invariance = ShiftInvariance(samples=9, stage_samples=3, map_samples=11)
    assert looked_at([]) == 1
    assert looked_at([gradient]) == 7
    assert looked_at([gradient, ShiftInvariance(shift_samples=600)]) == 600
    assert looked_at([gradient, invariance]) == 512
    assert looked_at([gradient, Bare()]) == SAMPLES


def test_fewer_images_are_the_first_of_more():
    digits = data.build("digits", root="data", seed=0)
    few, many = sample(digits, digits.val, 5), sample(digits, digits.val)
    assert few.images.shape[0] == 5 < len(many.images)
    assert torch.equal(few.images, many.images[:5]) and torch.equal(few.labels, many.labels[:5])


@pytest.fixture
def net():
    torch.manual_seed(0)
    return model.build(
        "convnet",
        1,
        (28, 28),
        10,
        pool=lambda stage, channels: pool.build("max", channels),
        readout=lambda channels, size: readout.build("gap", channels, size),
        width=4,
    ).eval()


def test_shares_are_those_of_the_probes_gradient(net):
    batch = Batch(torch.randn(8, 1, 28, 28), torch.arange(8))
    found = routing_of(net, batch)
    taps = stage_gradients(net, net.stages, batch.images[:ROUTED], batch.labels[:ROUTED])
    assert found.shares.keys() == taps.keys()
    for stage, tap in taps.items():
        counted = (tap.gradient != 0).sum(1) / tap.gradient.shape[1]
        assert found.shares[stage] == pytest.approx(counted.numpy())
    assert found.images.shape == (ROUTED, 28, 28, 1)
    assert found.images.min((1, 2, 3)).tolist() == [0] * ROUTED
    assert found.images.max((1, 2, 3)).tolist() == [255] * ROUTED


def test_large_images_are_reduced_and_keep_their_form(net):
    batch = Batch(torch.randn(1, 1, 200, 300), torch.tensor([3]))
    found = routing_of(net, batch)
    assert found.images.shape == (1, LONGEST * 200 // 300, LONGEST, 1)
    assert all(max(one.shape[1:]) <= LONGEST for one in found.shares.values())
