"""The picture's data against the probe that counts the same gradient."""

import pytest
import torch

from cnnpool import model, pool, readout
from cnnpool.fit.pictures import LARGEST, ROUTED, routing_of
from cnnpool.probe import Batch
from cnnpool.probe.gradient_taps import stage_gradients


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
    assert found.images.shape == (1, LARGEST * 200 // 300, LARGEST, 1)
    assert all(max(one.shape[1:]) <= LARGEST for one in found.shares.values())
