"""Which images a run goes on with and measures, and how they are normalised."""

from types import SimpleNamespace

import pytest
import torch

from cnnpool import data
from cnnpool.fit import Images
from cnnpool.fit.results import looked_at, measure, measuring, sample
from cnnpool.probe import GradientRouting
from cnnpool.training import normalised


@pytest.fixture(scope="module")
def sets():
    return [data.build("digits", seed=seed, limit=400, batch_size=64) for seed in (0, 1)]


def test_a_sample_is_the_same_of_all_seeds_and_its_first_images_are_of_all_classes(sets):
    one, other = (sample(each, each.test, 20).labels for each in sets)
    assert torch.equal(one, other) and set(one[:15].tolist()) == set(range(10))


def test_probes_of_epochs_see_validation_images_and_those_of_the_end_test_images(sets):
    dataset, seen = sets[0], []
    last = SimpleNamespace(section="x", measure=lambda net, stages, images, *rest: seen.append(images))
    network = torch.nn.Flatten()
    network.stages = {}
    run = SimpleNamespace(dataset=dataset, network=network, probes={"x": last})
    measure(run, torch.device("cpu"))
    assert torch.equal(seen[0], sample(dataset, dataset.test).images)
    run.probes = {"gradient": GradientRouting(samples=8, every_epochs=1)}
    (callback,) = measuring(run)
    assert torch.equal(callback.batch.images, sample(dataset, dataset.val, 8).images)


def test_as_many_images_are_sampled_as_the_probe_of_most_takes():
    assert looked_at([SimpleNamespace(samples=n, stage_samples=2) for n in (8, 32, 16)]) == 32


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
