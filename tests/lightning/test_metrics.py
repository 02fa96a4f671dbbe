import json
from functools import partial

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torchmetrics import MetricCollection

from cnnpool import probe
from cnnpool.lightning import GradientRouting, GradientSparsity, ProbeCallback, ShiftConsistency
from cnnpool.probe.consistency import PRESETS, paired_predictions


def linear():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 4)), torch.rand(40, 1, 8, 8)


def shares(model, *parts, rank=0, drawn=0):
    """The share of agreeing pairs of each part, with the seeds that updates one after the other take."""
    found = []
    for images in parts:
        seed = int(np.random.SeedSequence((0, rank, drawn)).generate_state(1)[0])
        pair = paired_predictions(model, images, PRESETS["distinct"], seed)
        found.append(float(torch.eq(*pair).double().mean()))
        drawn += len(images)
    return found


def test_updates_add_up_and_reset_forgets():
    model, images = linear()
    metric = ShiftConsistency()
    parts = images[:10], images[10:]
    for part in parts:
        metric.update(model, part)
    first, second = shares(model, *parts)
    assert metric.compute().item() == pytest.approx((10 * first + 30 * second) / 40)
    metric.reset()
    metric.update(model, images)
    assert metric.compute().item() == pytest.approx(*shares(model, images, drawn=40))


def test_every_batch_of_forward_draws_other_pairs():
    model, images = linear()
    metric = ShiftConsistency()
    batches = [metric(model, images).item() for _ in range(4)]
    assert batches == pytest.approx(shares(model, *[images] * 4)) and len(set(batches)) > 1
    assert metric.compute().item() == pytest.approx(sum(batches) / 4)


def test_metrics_of_a_collection_stay_apart_after_equal_values():
    model, images = linear()
    alone = {preset: ShiftConsistency(preset) for preset in ("distinct", "aps_crop")}
    together = MetricCollection({preset: ShiftConsistency(preset) for preset in alone})
    # Of black images all pairs agree.
    for part in (0 * images, images):
        together.update(model, part)
        for metric in alone.values():
            metric.update(model, part)
    assert together.compute() == {preset: metric.compute() for preset, metric in alone.items()}
    assert len(set(map(float, together.compute().values()))) == 2


def in_group(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/group", rank=rank, world_size=2)
    model, images = linear()
    consistency, sparsity = ShiftConsistency(), GradientSparsity()
    consistency.update(model, images[:10] if rank else images[10:])
    sparsity.update(torch.tensor([0.0, 1.0, 2.0]) if rank else torch.tensor([0.0]))
    values = {"consistency": consistency.compute().item(), "sparsity": sparsity.compute().item()}
    (folder / f"{rank}.json").write_text(json.dumps(values))
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_processes_add_up(tmp_path):
    processes = [mp.get_context("fork").Process(target=in_group, args=(r, tmp_path)) for r in (0, 1)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    model, images = linear()
    one, other = (*shares(model, images[:10], rank=1), *shares(model, images[10:]))
    for rank in (0, 1):
        found = json.loads((tmp_path / f"{rank}.json").read_text())
        assert found["consistency"] == pytest.approx((10 * one + 30 * other) / 40)
        assert found["sparsity"] == 0.5


def test_the_model_is_left_as_found_and_an_unknown_preset_is_refused():
    model = nn.Sequential(nn.BatchNorm2d(1), nn.Dropout(), nn.Flatten(), nn.Linear(64, 2)).train()
    model.register_buffer("calls", torch.tensor(0))
    model.register_forward_pre_hook(lambda model, _: setattr(model, "calls", model.calls + 1))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    images, state = torch.rand(4, 1, 8, 8), torch.get_rng_state()
    ShiftConsistency().update(model, images)
    assert model.training and torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in before.items())
    with pytest.raises(ValueError, match="no preset named 'distnct'; choose from"):
        ShiftConsistency("distnct")
    with pytest.raises(ValueError, match=r"images of at least 256x256, got 8x8"):
        ShiftConsistency("zhang_imagenet").update(model, torch.rand(4, 1, 8, 8))
    with pytest.raises(ValueError, match=r"images must be a tensor \(N, C, H, W\), got float32 \(1, 8, 8\)"):
        ShiftConsistency().update(model, images[0])


def test_sparsity_is_the_share_of_exact_zeros():
    metric = GradientSparsity()
    metric.update(torch.tensor([[0.0, 1.0], [0.0, -1e-30]]))
    metric.update(torch.tensor([0.0, float("nan")]))
    assert metric.compute().item() == pytest.approx(3 / 6)


def test_callbacks_of_one_kind_with_other_arguments_have_keys_of_their_own():
    images, labels = torch.rand(2, 3, 4, 4), torch.tensor([0, 1])
    told = [
        {}, {"batch": (images, labels)}, {"batch": (images + 1, labels)},
        {"network": lambda module: module.first}, {"network": lambda module: module.second},
        {"network": partial(getattr, "first")}, {"network": partial(getattr, "second")},
        {"unpack": lambda batch: (batch["a"], batch["b"])},
        {"unpack": lambda batch: (batch["x"], batch["b"])},
        {"quantities": ("zero_fraction",)}, {"quantities": ("coverage",)},
        {"mean": [0.5], "std": [1.0]}, {"mean": [0.5], "std": [2.0]},
        {"samples": 3},
    ]  # fmt: skip
    routing = probe.GradientRouting()
    keys, again = ([ProbeCallback(routing, **options).state_key for options in told] for _ in range(2))
    assert len(set(keys)) == len(told)
    assert keys == again
    assert not any(" at 0x" in key for key in keys)
    # A variable that is given later.
    assert GradientRouting(network=lambda module: net).state_key
    net = None
