"""A script's own code in ``cnnpool.train``: networks, operators, images, callbacks, loggers, classifiers."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.loggers import CSVLogger
from proofs import proves
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset
from torchmetrics.classification import MulticlassF1Score

import cnnpool
from cnnpool import registry
from cnnpool.data import from_tensors
from cnnpool.fit import Classifier
from cnnpool.launch.python import typed
from cnnpool.pool import Pool2d
from cnnpool.report import main as compare
from cnnpool.run_folder.checkpoint import load

QUICK = {"fit": {"epochs": 2, "precision": "32-true", "pictures": False}, "probe": "none", "out": "all"}
SMALL = {"data": {"name": "digits", "limit": 128}, "model": {"name": "convnet", "width": 2}}
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*is deprecated"),
    pytest.mark.filterwarnings("ignore:Experiment logs directory"),
]


@pytest.fixture(autouse=True)
def forgotten():
    yield
    registry._given.clear()


class Focal(Classifier):
    def loss(self, logits, labels):
        right = F.log_softmax(logits, 1).gather(1, labels[:, None])
        return (-((1 - right.exp()) ** 2) * right).mean()

    def metrics(self):
        return {"f1": MulticlassF1Score(10, average="macro")}

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.125)


class Bare(Classifier):
    def training_step(self, batch, batch_idx):
        return F.cross_entropy(self(batch[0]), batch[1])


class Seen(Callback):
    epochs = 0

    def on_train_epoch_end(self, trainer, module):
        self.epochs += 1


class AddOnePool2d(Pool2d):
    def __init__(self, channels: int, *, stride: int = 2):
        super().__init__(channels)
        self.stride = self.kernel_size = (stride, stride)

    def forward(self, x):
        return F.max_pool2d(x, self.stride) + 1


def build(num_classes: int, width: int = 3):
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, num_classes)
    return nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), *head)


def results_of(found):
    return json.loads(Path(f"all/{found.run}/results.json").read_text())


def test_a_classifier_of_ones_own_trains_is_recorded_and_needed(in_a_folder, caplog):
    caplog.set_level("INFO")
    seen, csv = Seen(), CSVLogger("csv", name="", version="")
    found = cnnpool.train(QUICK, SMALL, classifier=Focal, callbacks=[seen], loggers=[csv])
    assert seen.epochs == 2
    record = results_of(found)
    assert (record["asked"]["classifier"], record["asked"]["callbacks"]) == ("Focal", ["Seen"])
    # By hand: the focal loss and F1 of the test images, from the trained network's logits.
    folder = in_a_folder / "all" / found.run
    with pytest.raises(ValueError, match="was trained by a class Focal: load it by classifier=Focal"):
        cnnpool.load(folder)
    trained, images = cnnpool.load(folder, classifier=Focal), cnnpool.datamodule("digits", limit=128)
    pixels, labels = next(iter(images.test_dataloader()))
    with torch.no_grad():
        shares = trained(pixels).double().softmax(1)
    right, answers = shares.gather(1, labels[:, None]), shares.argmax(1)
    assert found.test.loss == pytest.approx(float((-((1 - right) ** 2) * right.log()).mean()), rel=1e-4)
    of = [(answers == c, labels == c) for c in range(10)]
    f1 = sum(float(2 * (one & other).sum() / (one.sum() + other.sum())) for one, other in of) / 10
    assert found.test.f1 == pytest.approx(f1, abs=1e-6) and found.val.accuracy == record["val"]["accuracy"]
    rows = (in_a_folder / "csv" / "metrics.csv").read_text()
    assert "val/f1" in rows and "0.125" in rows
    assert record["quantities"]["test.f1"]["better"] == "higher"
    said = {key: record["quantities"][f"{key}.loss"]["definition"] for key in ("train", "val", "test")}
    assert all(one.startswith("Mean of Focal.loss, the ") for one in said.values())
    assert "val loss" in caplog.text and "label_smoothing" not in caplog.text
    with pytest.raises(Exception, match="classifier: Focal -> none"):
        cnnpool.train(QUICK, SMALL)
    cnnpool.train(QUICK, SMALL, classifier=Focal, callbacks=[Seen()], seed=1)
    assert compare(["all", "--metric", "test.f1", "--by", "pool"]) == 0


def test_a_training_step_of_ones_own_is_resumed_exactly(in_a_folder, monkeypatch):
    class Stop(Callback):
        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            if stopping and module.steps == 3:
                raise KeyboardInterrupt

    every = {"fit.checkpoint_every_minutes": 0, "data.batch_size": 32}
    stopping = False
    whole = cnnpool.train(QUICK, SMALL, every, classifier=Bare, callbacks=[Stop()], out="whole")
    stopping = True
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        cnnpool.train(QUICK, SMALL, every, classifier=Bare, callbacks=[Stop()], out="stopped")
    stopping = False
    again = cnnpool.train(QUICK, SMALL, every, classifier=Bare, callbacks=[Stop()], out="stopped")
    weights = [
        load(in_a_folder / name / whole.run / "checkpoints" / "last.ckpt") for name in ("whole", "stopped")
    ]
    first, second = (content["state_dict"] for content in weights)
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert whole.train == again.train and vars(whole.train).keys() == {"loss"}
    record = json.loads(Path(f"whole/{whole.run}/results.json").read_text())
    said = {key: record["quantities"][f"{key}.loss"]["definition"] for key in ("train", "val")}
    assert said["train"].startswith("Mean of Bare.training_step, the training images")
    assert said["val"] == "Mean cross entropy, the validation images."


def test_a_network_an_operator_and_images_of_ones_own(in_a_folder):
    pixels = torch.arange(60, dtype=torch.uint8)[:, None, None, None].repeat(1, 1, 6, 6)
    pixels[:, :, 0] = 255
    stripes = from_tensors(
        (pixels, torch.arange(60) % 2), (pixels[:10], torch.arange(10) % 2), classes=("a", "b")
    )
    own = {"model": build, "pool": AddOnePool2d, "data": stripes, "data.batch_size": 16, "model.width": 5}
    found = cnnpool.train(QUICK, own)
    record = results_of(found)
    assert record["model"]["arch"] == "build" and record["model"]["width"] == 5
    assert record["pool"]["name"] == "AddOnePool2d" and record["data"]["name"] == "Tensors"
    assert [sum(record["images"][split]) for split in ("train", "val", "test")] == [54, 6, 10]
    assert type(cnnpool.load(f"all/{found.run}").model.network[2]) is AddOnePool2d
    # Known as a finished run of the same images.
    assert cnnpool.train(QUICK, own).finished == found.finished
    with pytest.raises(ValueError, match="uint8"):
        from_tensors((pixels.float(), torch.arange(60)), (pixels, torch.arange(60)))


def test_a_module_is_trained_as_a_copy_and_another_is_refused(in_a_folder):
    network = build(10)
    before = network[0].weight.detach().clone()
    found = cnnpool.train(QUICK, {"data.limit": 128}, model=network)
    trained = cnnpool.load(f"all/{found.run}").model.network[0].weight
    assert torch.equal(network[0].weight, before) and not torch.equal(trained, before)
    with pytest.raises(Exception, match=r"model\.layers"):
        cnnpool.train(QUICK, {"data.limit": 128}, model=build(10, width=4))
    with pytest.raises(ValueError, match=re.escape("the network returns (2, 9) for 2 images of 10 classes")):
        cnnpool.train(QUICK, model=build(9), out="other")
    with pytest.raises(ValueError, match="has no name: give a class, or a function defined by def"):
        cnnpool.train(model=lambda classes: build(classes))


def test_a_module_of_other_weights_is_another_run(in_a_folder):
    torch.manual_seed(0)
    network, other = build(10), build(10)
    cnnpool.train(QUICK, {"data.limit": 128}, model=network)
    with pytest.raises(Exception, match=r"holds a finished run with other settings \(initial_weights: "):
        cnnpool.train(QUICK, {"data.limit": 128}, model=other)
    again = cnnpool.train(QUICK, {"data.limit": 128}, model=other, overwrite=True)
    assert cnnpool.train(QUICK, {"data.limit": 128}, model=other).finished == again.finished


def test_a_module_with_other_weights_frozen_or_another_constant_is_another_run(in_a_folder):
    network = build(10)
    network.register_buffer("scale", torch.ones(1), persistent=False)
    for weights in network[0].parameters():
        weights.requires_grad_(False)
    found = cnnpool.train(QUICK, {"data.limit": 128}, model=network)
    trained = cnnpool.load(f"all/{found.run}").model.network
    assert torch.equal(trained[0].weight, network[0].weight) and trained[-1].weight.requires_grad
    assert not torch.equal(trained[-1].weight, network[-1].weight)
    network[0].bias.requires_grad_(True)
    with pytest.raises(Exception, match=r"\(frozen: 2 parameters \(\w{12}\) -> 1 parameters \(\w{12}\)\)"):
        cnnpool.train(QUICK, {"data.limit": 128}, model=network)
    network[0].bias.requires_grad_(False)
    assert cnnpool.train(QUICK, {"data.limit": 128}, model=network).finished == found.finished
    network.scale.fill_(2)
    with pytest.raises(Exception, match=r"with other settings \(initial_weights: "):
        cnnpool.train(QUICK, {"data.limit": 128}, model=network)


def test_a_run_is_loaded_with_the_network_that_it_was_trained_with(in_a_folder):
    def of(act):
        def network(num_classes):
            return nn.Sequential(act(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(14 * 14, num_classes))

        return network

    settings = {"model": of(nn.ReLU)}
    first = cnnpool.train(QUICK, {"data.limit": 128, "out": "first"}, settings)
    settings["model"] = of(nn.Sigmoid)
    second = cnnpool.train(QUICK, {"data.limit": 128, "out": "second"}, settings)
    for _ in range(2):
        assert type(cnnpool.load(f"first/{first.run}").model.network[0]) is nn.ReLU
        assert type(cnnpool.load(f"second/{second.run}/checkpoints/best.ckpt").model.network[0]) is nn.Sigmoid
    # A finished run that is read stays what it was, and a part that is given counts.
    cnnpool.train(QUICK, {"data.limit": 128, "out": "first"}, settings)
    assert type(cnnpool.load(f"first/{first.run}").model.network[0]) is nn.ReLU
    assert type(cnnpool.load(f"first/{first.run}", model=of(nn.Tanh)).model.network[0]) is nn.Tanh


def resnet20(num_classes):
    raise AssertionError


def keep(channels):
    raise AssertionError


@pytest.mark.parametrize(("key", "own"), [("model", resnet20), ("pool", keep)])
def test_a_function_with_the_name_of_a_choice_is_refused(key, own):
    with pytest.raises(
        ValueError, match=rf"^{own.__name__} is the name of another of the \w+: give yours ano"
    ):
        cnnpool.classifier(SMALL, **{key: own})


def test_images_that_changed_between_two_calls_are_seen(in_a_folder):
    pixels = torch.arange(60, dtype=torch.uint8)[:, None, None, None].repeat(1, 1, 6, 6)
    first, second = (
        from_tensors((one, torch.arange(60) % 2), (one[:10], torch.arange(10) % 2))
        for one in (pixels, 255 - pixels)
    )
    found = cnnpool.train(QUICK, data=first, model=build)
    assert cnnpool.train(QUICK, data=first, model=build).finished == found.finished
    with pytest.raises(Exception, match="holds a finished run on other data"):
        cnnpool.train(QUICK, data=second, model=build)
    assert cnnpool.train(QUICK, data=first, model=build).finished == found.finished


@pytest.mark.parametrize(
    ("own", "base"),
    [
        ({"pool": nn.MaxPool2d}, "pool=MaxPool2d: its class must be derived from cnnpool.pool.Pool2d"),
        (
            {"readout": nn.AdaptiveAvgPool2d},
            "readout=AdaptiveAvgPool2d: its class must be derived from cnnpool.readout.Readout",
        ),
        (
            {"data": TensorDataset},
            "data=TensorDataset: its class must be derived from cnnpool.data.Source: "
            "cnnpool.data.from_tensors makes one of tensors",
        ),
        (
            {"data": (torch.zeros(2, 1, 4, 4), torch.zeros(2))},
            "data must be a class derived from cnnpool.data.Source, got a tuple: "
            "cnnpool.data.from_tensors makes one of tensors",
        ),
        (
            {"pool": nn.MaxPool2d(2)},
            "this MaxPool2d has no name: give a class, or a function defined by def",
        ),
    ],
)
def test_a_class_of_another_kind_is_refused_in_a_line(own, base):
    with pytest.raises(ValueError, match=f"^{re.escape(base)}$"):
        cnnpool.train(QUICK, **own)


def test_a_loss_for_each_image_is_refused_in_a_line(in_a_folder):
    class Each(Classifier):
        def loss(self, logits, labels):
            return F.cross_entropy(logits, labels, reduction="none")

    said = "Each.loss must return one number, such as the mean over images, got "
    with pytest.raises(ValueError, match=re.escape(said)):
        cnnpool.train(QUICK, SMALL, classifier=Each)


@pytest.mark.parametrize("name", ["accuracy", "last_accuracy", "loss", "top.2"])
def test_a_metric_called_like_a_score_of_every_run_is_refused(name):
    class Named(Classifier):
        def metrics(self):
            return {name: MulticlassF1Score(10)}

    with pytest.raises(ValueError, match=f"^the metric {re.escape(name)} needs another name, without a dot"):
        Named(model=build(10))


@proves("fit.test")
def test_the_best_or_the_last_weights_are_tested_and_both_are_recorded(in_a_folder, monkeypatch):
    # At such a rate the last epoch is not the best.
    own = {
        "fit.lr": 0.3,
        "fit.epochs": 4,
        "fit.schedule": "constant",
        "fit.warmup": 0,
        "fit.optimizer": "sgd",
    }
    tested = {}
    for which in ("last", "best"):
        found = cnnpool.train(QUICK, SMALL, own, {"fit.test": which}, seed=2)
        tested[which] = found.test
        weights = load(in_a_folder / "all" / found.run / "checkpoints" / f"{which}.ckpt")["state_dict"]
        loaded = cnnpool.load(f"all/{found.run}").state_dict()
        assert all(torch.equal(loaded[key], value) for key, value in weights.items())
        assert found.test.accuracy == getattr(found.test, f"{which}_accuracy")
    assert tested["last"].best_accuracy == tested["best"].best_accuracy
    assert tested["best"].last_accuracy == tested["last"].last_accuracy
    with pytest.raises(ValueError, match=r"fit\.test=best needs validation images"):
        cnnpool.train(QUICK, SMALL, {"data.val_size": 0, "fit.test": "best"})


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (None, "null"), (True, "true"), (3, "3"), (1e-7, "1e-07"), ("max", "max"), ("3", "'3'"),
        (np.int64(3), "3"), (np.float64(0.02), "0.02"), (np.bool_(True), "true"),
        ("32-true", "32-true"), ("a,b", "'a,b'"), ("it's", r"'it\'s'"), ((1, "x y"), "[1,'x y']"), ({}, "{}"),
    ],
)  # fmt: skip
def test_values_are_written_as_on_a_command_line(value, line):
    assert typed(value) == line
