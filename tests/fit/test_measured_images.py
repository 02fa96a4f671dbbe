"""Which images a run goes on with and measures, and how they are normalised."""

from types import SimpleNamespace

import pytest
import torch
from small_nets import network

from cnnpool import data
from cnnpool.fit import Images
from cnnpool.fit.results import LONGEST, ROUTED, SAMPLES, looked_at, measure, measuring, routing_of, sample
from cnnpool.probe import Batch, GradientRouting, ShiftInvariance
from cnnpool.probe.gradient_taps import stage_gradients
from cnnpool.training import normalised


@pytest.fixture(scope="module")
def sets():
    return [data.build("digits", seed=seed, limit=400, batch_size=64) for seed in (0, 1)]


def test_a_sample_is_the_same_of_all_seeds_and_fewer_are_its_first_which_are_of_all_classes(sets):
    one, other = (sample(each, each.test, 20) for each in sets)
    few = sample(sets[0], sets[0].test, 15)
    assert torch.equal(one.labels, other.labels) and set(few.labels.tolist()) == set(range(10))
    assert torch.equal(few.images, one.images[:15]) and torch.equal(few.labels, one.labels[:15])


def test_probes_of_epochs_see_validation_images_and_those_of_the_end_test_images(sets):
    dataset, seen = sets[0], []
    last = SimpleNamespace(section="x", measure=lambda net, stages, images, *rest: seen.append(images))
    network = torch.nn.Flatten()
    network.stages = {}
    recipe = SimpleNamespace(epochs=1)
    run = SimpleNamespace(dataset=dataset, network=network, probes={"x": last}, recipe=recipe)
    measure(run, torch.device("cpu"))
    assert torch.equal(seen[0], sample(dataset, dataset.test).images)
    run.probes = {"gradient": GradientRouting(samples=8, every_epochs=1)}
    (callback,) = measuring(run)
    assert torch.equal(callback.batch.images, sample(dataset, dataset.val, 8).images)


def test_as_many_images_are_sampled_as_the_probe_of_most_takes_or_all():
    few = GradientRouting(samples=7)
    assert looked_at([]) == 1 and looked_at([few]) == 7
    assert looked_at([ShiftInvariance(samples=9, shift_samples=600), few]) == 600
    assert looked_at([few, SimpleNamespace(section="bare")]) == SAMPLES


def test_images_go_on_where_they_were_once():
    images = Images(data.build("digits", limit=64, batch_size=8))
    images.load_state_dict({"epoch": 0, "batch": 2})
    shown = [list(images.train_dataloader()) for _ in range(2)]
    assert [len(batches) for batches in shown] == [6, 8]
    # Without a Trainer, a loader made anew is of the next epoch, unless the last one was only looked at.
    images.train_dataloader()
    batches = images.dataset.train_loader()
    for epoch, made in enumerate([*shown, images.train_dataloader()]):
        batches.sampler.set_epoch(epoch)
        own = [labels for _, labels in batches][8 - len(made) :]
        assert all(map(torch.equal, own, (labels for _, labels in made)))
    images.trainer = SimpleNamespace(global_rank=0, world_size=1, state=SimpleNamespace(status="running"),
        strategy=SimpleNamespace(root_device=torch.device("cpu")))  # fmt: skip
    assert images.train_dataloader().state_dict()["epoch"] == 0


def test_predictions_are_of_the_test_images(sets):
    (shown, _), *_ = Images(sets[0]).predict_dataloader()
    assert torch.equal(shown, next(iter(sets[0].plain_loader(sets[0].test)))[0])


def test_grey_images_are_normalised_by_the_mean_over_the_channels_of_published_weights(sets):
    weights = SimpleNamespace(loaded=SimpleNamespace(mean=(0.25, 0.5, 0.75), std=(0.5, 0.5, 0.125)))
    grey = normalised(sets[0], weights)
    assert grey.mean == (0.5,) and grey.std == (0.375,)


def test_shares_of_the_routing_are_those_of_the_probes_gradient_and_large_images_are_reduced():
    net = network("convnet", 1, (28, 28), 10, width=4).eval()
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
    large = routing_of(net, Batch(torch.randn(1, 1, 200, 300), torch.tensor([3])))
    assert large.images.shape == (1, LONGEST * 200 // 300, LONGEST, 1)
    assert all(max(one.shape[1:]) <= LONGEST for one in large.shares.values())
