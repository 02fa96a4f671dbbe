"""Somebody's training is refused before its first step, or never ended."""

from contextlib import nullcontext
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.callbacks import EarlyStopping
from short_runs import quiet_trainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from cnnpool import probe
from cnnpool.lightning import Aliasing, GradientRouting, ProbeCallback, ShiftConsistency
from cnnpool.lightning.probe_callback import check
from cnnpool.quantity import ratio

IMAGES = torch.rand(16, 1, 8, 8, generator=torch.Generator().manual_seed(0))
CLASSES = torch.arange(16) % 3


class Theirs(LightningModule):
    """A module that trains whatever its batches and outputs are; ``shown`` makes its output of logits."""

    def __init__(self, shown=lambda logits: logits, frozen=False):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
        self.shown, self.frozen, self.steps = shown, frozen, 0

    def forward(self, images):
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            features = self.features(images)
        return self.shown(self.head(features))

    def training_step(self, batch, batch_idx):
        self.steps += 1
        return self.head(self.features(IMAGES)).square().mean()

    def validation_step(self, batch, batch_idx):
        pass

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def loader(labels, images=IMAGES):
    return DataLoader(TensorDataset(images, labels), batch_size=4)


def fit(module, callbacks, labels=CLASSES, validation=CLASSES, epochs=2, checkpoint=None, **options):
    trainer = quiet_trainer(max_epochs=epochs, callbacks=callbacks, **options)
    loaders = loader(labels), None if validation is None else loader(validation)
    trainer.fit(module, *loaders, ckpt_path=checkpoint, weights_only=False)
    return trainer


LABELS = r"labels must be .*unpack="
OUTPUTS = r"Theirs (must return logits|fails on images float32 \(\d, 1, 8, 8\): index 99) .*network="


@pytest.mark.parametrize(
    ("match", "labels", "options"),
    [
        (LABELS, torch.zeros(16, 8, 8, dtype=torch.int64), {}),
        (LABELS, torch.eye(16, 3, dtype=torch.int64), {}),
        (LABELS, CLASSES - 1, {}),
        (LABELS, CLASSES + 1, {}),
        (OUTPUTS, CLASSES, {"shown": lambda logits: {"logits": logits}}),
        (OUTPUTS, CLASSES, {"shown": lambda logits: logits[:, :, None, None].expand(-1, -1, 8, 8)}),
        (OUTPUTS, CLASSES, {"shown": lambda logits: logits[99]}),
        (r"GradientRouting cannot measure Theirs: .*network=", CLASSES, {"frozen": True}),
    ],
)
def test_labels_and_networks_that_cannot_be_measured_are_refused_before_the_first_step(
    match, labels, options
):
    fit(Theirs(**options), [], labels, labels)
    for validation, sanity in ((labels, 2), (None, 0)):
        module = Theirs(**options)
        with pytest.raises(ValueError, match=match):
            fit(module, [GradientRouting()], labels, validation, num_sanity_val_steps=sanity)
        assert module.steps == 0


def test_features_without_gradient_are_measured_by_a_probe_that_needs_none():
    callback = Aliasing()
    fit(Theirs(frozen=True), [callback])
    assert callback.values


def test_mixed_labels_in_training_are_no_matter_where_validation_has_classes():
    for sanity in (2, 0):
        callback = GradientRouting()
        fit(Theirs(), [callback], labels=torch.rand(16, 3), num_sanity_val_steps=sanity)
        assert callback.values


@dataclass(kw_only=True)
class Brightness(probe.Probe):
    """The mean of the images, which fails in the measurement of the number ``fails``, from 0."""

    section = "brightness"
    quantities = (ratio("mean", "mean", "Mean of the images."),)
    fails: int = -1

    def __post_init__(self):
        self.count = -1

    def read(self, model, stages, batch):
        # The first is the trial before training.
        self.count += 1
        if self.count > self.fails >= 0:
            raise RuntimeError("out of memory")
        return {"mean": batch.images.double().mean().item()}


def failures(warned):
    return [str(one.message) for one in warned if "is switched off" in str(one.message)]


def test_a_failure_later_is_warned_of_once_and_ends_no_training():
    callback, other = ProbeCallback(Brightness(fails=1)), GradientRouting()
    module = Theirs()
    with pytest.warns(UserWarning) as warned:
        trainer = fit(module, [callback, other], epochs=4)
    assert failures(warned) == [
        "ProbeCallback failed and is switched off for this training: RuntimeError: out of memory"
    ]
    assert trainer.current_epoch == 4 and module.steps == 16
    assert callback.latest == {"mean": pytest.approx(IMAGES.mean().item())} and other.values
    # Another training begins anew, with its own images.
    callback.probe.fails = -1
    trainer = quiet_trainer(max_epochs=1, callbacks=[callback])
    trainer.fit(Theirs(), loader(CLASSES), loader(CLASSES, torch.ones(16, 1, 8, 8)))
    assert callback.latest == {"mean": 1}
    # The same one goes on with them.
    trainer.fit(Theirs(), loader(CLASSES), loader(CLASSES))
    assert callback.latest == {"mean": 1}


def test_a_validation_batch_that_cannot_be_measured_is_warned_of_once():
    callback = GradientRouting()
    with pytest.warns(UserWarning, match="labels must be .*got float32") as warned:
        fit(Theirs(), [callback], validation=torch.rand(16), num_sanity_val_steps=0)
    assert len(failures(warned)) == 1 and not callback.values
    with pytest.raises(ValueError, match=r"labels must be .*got float32"):
        fit(Theirs(), [callback], validation=torch.rand(16), num_sanity_val_steps=2)


def test_a_given_batch_and_given_modules_are_measured():
    module, images = Theirs(), torch.rand(6, 1, 8, 8)
    callback = ProbeCallback(
        probe.GradientRouting(), batch=(images, CLASSES[:6].int()), stages={"pool": module.features[2]}
    )
    fit(module, [callback], torch.rand(16), validation=torch.rand(16))
    expected = probe.GradientRouting().measure(module, {"pool": module.features[2]}, images, CLASSES[:6])
    assert callback.latest == expected and set(expected) == {"pool"}
    with pytest.raises(ValueError, match=r"labels must be .*got float32 \(6,\)"):
        ProbeCallback(probe.GradientRouting(), batch=(images, torch.rand(6)))
    for alone, got in (((images,), "a tuple of 1"), (images, r"float32 \(6, 1, 8, 8\)")):
        with pytest.raises(ValueError, match=rf"batch must be \(images, labels\).*, got {got}$"):
            ProbeCallback(probe.GradientRouting(), batch=alone)


def test_a_probe_of_many_passes_is_not_tried_beforehand():
    class Long(probe.Aliasing):
        tried = False

        def measure(self, *arguments):
            raise AssertionError("tried")

    check(Long(), Theirs(), dict, IMAGES, CLASSES)


class Pair(nn.Module):
    """The head of a network on the first of two outputs."""

    def __init__(self):
        super().__init__()
        self.pool, self.flat, self.head = nn.MaxPool2d(2, return_indices=True), nn.Flatten(), nn.Linear(16, 3)

    def forward(self, images):
        return self.head(self.flat(self.pool(images)[0]))


@pytest.mark.parametrize(("stage", "returned"), [("pool", "a tuple"), ("flat", r"float32 \(16, 16\)")])
def test_a_stage_without_a_map_is_refused_also_by_a_probe_of_many_passes(stage, returned):
    network = Pair()
    said = rf"stage {stage} returns {returned}, no map \(N, C, H, W\);.* or stages=, names of modules"
    with pytest.raises(ValueError, match=said):
        check(probe.ShiftInvariance(), network, lambda: {stage: getattr(network, stage)}, IMAGES, CLASSES)
    # Other probes do not look at stages.
    check(probe.Corruptions(), network, lambda: {stage: getattr(network, stage)}, IMAGES, CLASSES)


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        ({}, {"network": lambda module: module.teacher}, True),
        ({}, {"samples": 8}, True),
        ({}, {"quantities": ("coverage",)}, False),
        ({}, {"samples": 8, "quantities": ("coverage",)}, True),
        ({"quantities": ("zero_fraction",)}, {"samples": 8, "quantities": ("coverage",)}, False),
        ({"stages": ["a.pool"]}, {"samples": 8, "stages": ["b.pool"]}, False),
        ({"stages": ["a.pool"]}, {"samples": 8, "stages": {"a_pool": nn.MaxPool2d(2)}}, True),
        ({"stages": ["a.pool"]}, {"samples": 8}, True),
    ],
)
def test_two_callbacks_that_log_two_measurements_by_one_name_say_so(one, other, clash):
    first, second = GradientRouting(**one), GradientRouting(**other)
    trainer = SimpleNamespace(callbacks=[first, Aliasing(samples=8), second], callback_metrics={})
    said = r"GradientRouting and another GradientRouting both log gradient/\w+/<stage>, of other"
    with pytest.warns(match=said) if clash else nullcontext():
        second.on_fit_start(trainer, None)
    first.on_fit_start(trainer, None)


def test_early_stopping_sees_the_values():
    stop = EarlyStopping("brightness/mean", patience=1)
    callback = ProbeCallback(Brightness())
    trainer = fit(Theirs(), [stop, callback], epochs=9)
    assert trainer.current_epoch == 2
    assert trainer.callback_metrics["brightness/mean"].item() == callback.values["brightness/mean"]


def test_state_is_in_the_checkpoint(tmp_path):
    # Training images alone, which another process would see in another order.
    first = ProbeCallback(Brightness(), samples=6)
    fit(Theirs(), [first], validation=None, epochs=1).save_checkpoint(tmp_path / "one.ckpt")
    finished, again = (ProbeCallback(Brightness(), samples=6) for _ in range(2))
    trainer = fit(Theirs(), [finished], validation=None, epochs=1, checkpoint=tmp_path / "one.ckpt")
    assert finished.latest == first.latest != {}
    assert trainer.callback_metrics["brightness/mean"].item() == first.latest["mean"]
    module, other = Theirs(), torch.zeros(16, 1, 8, 8)
    trainer = quiet_trainer(max_epochs=2, callbacks=[again])
    trainer.fit(module, loader(CLASSES, other), ckpt_path=tmp_path / "one.ckpt", weights_only=False)
    assert again.latest == first.latest


class Bright(nn.Module):
    """Two classes: brighter than -0.4 on average or not."""

    def forward(self, x):
        mean = x.mean((1, 2, 3))
        return torch.stack((mean, torch.full_like(mean, -0.4)), 1)


@pytest.mark.parametrize(("told", "value"), [({"mean": [0.75], "std": [0.5]}, -1.5), ({}, -1.0)])
def test_what_enters_is_black(told, value):
    # White on black, normalised: untold, black is the darkest value, -1; zero would be grey.
    images = -torch.ones(16, 1, 8, 8)
    images[:, :, 2:6, 2:] = 1
    diagonal = probe.Diagonal()
    fills = torch.tensor([value]), torch.tensor([-2.5 - value]), None
    black, other, grey = (diagonal.measure(Bright(), {}, images, CLASSES % 2, fill) for fill in fills)
    batch = images, CLASSES % 2
    callback = ProbeCallback(diagonal, network=lambda module: Bright(), batch=batch, **told)
    fit(Theirs(), [callback])
    assert callback.latest == black not in (other, grey)


def test_mean_without_std_is_refused():
    with pytest.raises(ValueError, match="mean and std belong together"):
        Aliasing(mean=[0.5])


def test_the_share_of_a_dense_output_is_refused():
    model = nn.Conv2d(1, 5, 3, padding=1)
    for preset in ("distinct", "one_px"):
        with pytest.raises(ValueError, match=r"must return logits \(N, K\), one row per image, got shape"):
            ShiftConsistency(preset).update(model, torch.rand(8, 1, 32, 32))
