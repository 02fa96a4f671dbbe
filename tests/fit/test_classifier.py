from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.loggers import Logger
from short_runs import quiet_trainer
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import cnnpool
from cnnpool.fit import Classifier


def test_draws_are_of_seed_epoch_step_and_process(monkeypatch):
    def drawn(seed=0, epoch=0, step=0, process=0):
        monkeypatch.setattr(Classifier, "current_epoch", epoch)
        monkeypatch.setattr(Classifier, "global_rank", process)
        Classifier(model=nn.Flatten(), seed=seed).on_train_batch_start(None, step)
        return torch.rand(()).item()

    others = [drawn(**{one: 1}) for one in ("seed", "epoch", "step", "process")]
    assert len({drawn(), *others}) == 5 and drawn() == drawn()


def test_the_weights_to_start_from_are_those_of_the_seed():
    made = [cnnpool.classifier("data=digits", seed=seed).state_dict() for seed in (0, 0, 1)]
    (key,) = [key for key in made[0] if key.endswith("classifier.weight")]
    assert torch.equal(made[0][key], made[1][key]) and not torch.equal(made[0][key], made[2][key])
    described = cnnpool.classifier("data=digits").hparams
    again = [Classifier(**described).state_dict()[key] for _ in range(2)]
    assert torch.equal(*again)


def test_label_smoothing_is_of_training_alone():
    classifier = Classifier(model=nn.Flatten(), fit={"label_smoothing": 0.2})
    logits, labels = torch.tensor([[2.0, 0.0, 1.0]]), torch.tensor([0])
    plain = F.cross_entropy(logits, labels)
    assert classifier.eval().loss(logits, labels) == plain
    assert classifier.train().loss(logits, labels) == F.cross_entropy(logits, labels, label_smoothing=0.2)


@pytest.mark.parametrize("training", [True, False])
def test_an_image_is_predicted_by_the_network_in_evaluation_mode_which_keeps_its_own(training):
    data = {"in_channels": 1, "size": [2, 2], "classes": ["a", "b"], "mean": [0.25], "std": [0.5]}
    network = nn.Sequential(nn.Flatten(), nn.Linear(4, 2), nn.Dropout(0.99))
    classifier, image = Classifier(model=network, data=data).train(training), torch.rand(1, 2, 2)
    said = classifier.predict(image)
    assert classifier.training == network[2].training == training
    normalised = (image[None] - 0.25) / 0.5
    shares = network.eval()(normalised).softmax(1)[0]
    assert said.name == "ab"[shares.argmax()] and said.probability == pytest.approx(shares.max().item())
    (batch,) = classifier.eval().predict_step((normalised, torch.tensor([0])))
    torch.testing.assert_close(batch, shares)


def test_a_schedule_is_of_the_steps_asked_for_and_an_epochs_last_step_may_have_fewer_parts():
    classifier = Classifier(model=nn.Flatten(), fit={"max_steps": 4})
    own = SimpleNamespace(estimated_stepping_batches=10, accumulate_grad_batches=2, limit_train_batches=1.0)
    own.datamodule = SimpleNamespace(batches_of_epoch=5)
    classifier.trainer = own
    assert classifier.steps_of_epoch == 3 and classifier.total_steps == 4


class Notes(Logger, Callback):
    """The numbers logged, the rate of each step, and the checkpoint within the second epoch."""

    name = version = ""

    def __init__(self):
        super().__init__()
        self.lines, self.rates, self.saved = [], [], {}

    def log_hyperparams(self, *_):
        pass

    def log_metrics(self, metrics, step=None):
        self.lines.append(metrics)

    def on_before_optimizer_step(self, trainer, module, optimizer):
        self.rates.append(optimizer.param_groups[0]["lr"])

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.current_epoch == 1 and batch_idx == 1:
            module.on_save_checkpoint(self.saved)


@pytest.mark.filterwarnings("ignore:.*is deprecated", "ignore:.*does not have many workers")
def test_scores_are_means_over_an_epochs_images_rates_those_of_the_step_and_a_restart_keeps_both():
    images, labels = torch.rand(10, 1, 2, 2), torch.arange(10) % 2
    batches, notes = DataLoader(TensorDataset(images, labels), batch_size=4), Notes()
    still = {"lr": 1e-30, "weight_decay": 0.0, "log_every_steps": 1, "warmup": 0.4, "label_smoothing": 0.0}
    classifier = Classifier(model=nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), fit=still)
    trainer = quiet_trainer(
        max_epochs=3, check_val_every_n_epoch=2, log_every_n_steps=1, logger=notes, callbacks=[notes]
    )
    trainer.fit(classifier, batches, batches)
    with torch.no_grad():
        logits = classifier(images)
    loss, accuracy = (
        F.cross_entropy(logits, labels).item(),
        (logits.argmax(1) == labels).double().mean().item(),
    )
    epochs = [line for line in notes.lines if "epoch/train_loss" in line]
    assert [line["epoch/train_loss"] for line in epochs] == pytest.approx([loss] * 3)
    assert [line["train/accuracy"] for line in epochs] == pytest.approx([accuracy] * 3)
    assert [line.get("val/loss") for line in epochs] == [None, pytest.approx(loss), None]
    rates = [classifier.recipe.learning_rate(step, 9) for step in range(9)]
    assert notes.rates == pytest.approx(rates, rel=1e-6, abs=0)
    logged = [line["train/learning_rate"] for line in notes.lines if "train/learning_rate" in line]
    assert logged == pytest.approx(rates, rel=1e-6, abs=0)
    # A second training, of one step, has its own rates; ``max_steps`` counts its steps alone.
    notes.rates.clear(), notes.lines.clear()
    classifier.recipe = replace(classifier.recipe, max_steps=1)
    quiet_trainer(max_epochs=1, log_every_n_steps=1, logger=notes, callbacks=[notes]).fit(
        classifier, batches, batches
    )
    (rate,) = [line["train/learning_rate"] for line in notes.lines if "train/learning_rate" in line]
    assert classifier.steps == 1 and [rate] == pytest.approx(notes.rates) and rate > 0
    other, again = Classifier(model=nn.Flatten()), {}
    other.on_load_checkpoint(notes.saved)
    other.trainer = trainer
    other.on_save_checkpoint(again)
    kept, read = (one["cnnpool"] for one in (notes.saved, again))
    assert read["steps"] == kept["steps"] == 5 and kept["training_sums"][2] == 8
    assert torch.equal(read["training_sums"], kept["training_sums"])
