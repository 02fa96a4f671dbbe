"""The facts that a checkpoint holds of a training, with a stand-in for the Trainer."""

import signal
from types import SimpleNamespace

import pytest
from torch import nn

from cnnpool.fit import Classifier
from cnnpool.fit.checkpoints import Checkpoints
from cnnpool.system.signals import Stopped


@pytest.fixture
def parts(tmp_path):
    """A function: (the callback, its Trainer and module, what is saved as (epoch, step, file))."""

    def make(pending=0, minutes=10.0, **options):
        saving, saved = Checkpoints(tmp_path, "", None, SimpleNamespace(pending=pending)), []
        saving.signals.install = lambda: None
        module = Classifier(model=nn.Linear(1, 1), fit={"checkpoint_every_minutes": minutes})
        facts = {"world_size": 1, "is_global_zero": False, "should_stop": False, "enable_validation": True}
        facts |= {"current_epoch": 0, "min_epochs": None, "max_epochs": 9, "num_training_batches": 9}
        trainer = SimpleNamespace(**facts | options)
        trainer.save_checkpoint = lambda path, weights_only: saved.append(
            (trainer.current_epoch, module.steps, path.stem)
        )
        return saving, trainer, module, saved

    return make


@pytest.fixture
def epochs(parts):
    """A function: epochs end with these validation accuracies; the epochs of best.ckpt, and of an end."""

    def train(accuracies, state=None, ask_at=99, first=0, minutes=0.0, **options):
        ended = []
        saving, trainer, module, saved = parts(minutes=minutes, max_epochs=first + len(accuracies), **options)
        if state:
            saving.load_state_dict(state)
        saving.on_train_start(trainer, module)
        for epoch, accuracy in enumerate(accuracies, first):
            trainer.current_epoch = epoch
            trainer.should_stop |= epoch >= ask_at
            module.latest = {} if accuracy is None else {"val": {"accuracy": accuracy}}
            saving.on_train_epoch_end(trainer, module)
            ended += [epoch] * saving.stopped
        return [epoch for epoch, _, name in saved if name == "best"], ended, saving.state_dict()

    return train


@pytest.fixture
def clock(monkeypatch):
    """A function that sets the seconds since the callback was made."""
    now = SimpleNamespace(monotonic=lambda: 1000.0, perf_counter=lambda: 0.0)
    monkeypatch.setattr("cnnpool.fit.checkpoints.time", now)
    return lambda seconds: setattr(now, "monotonic", lambda: 1000.0 + seconds)


def test_the_best_epoch_is_the_first_of_the_most_accurate_also_after_a_restart(epochs):
    best, _, state = epochs([0.0, 0.5, 0.4, 0.7, 0.7, 0.6])
    assert best == [0, 1, 3]
    assert epochs([0.6, 0.7, 0.8], state)[0] == [2]


def test_without_validation_the_last_epoch_is_the_best_and_an_unvalidated_one_is_not(epochs):
    assert epochs([None] * 3, enable_validation=False)[0] == [0, 1, 2]
    assert epochs([None] * 3, enable_validation=False, minutes=10.0)[0] == [2]
    assert epochs([0.5, None, 0.6])[0] == [0, 2]
    assert epochs([None, 0.0, None])[0] == [1] and epochs([None] * 3)[0] == [2]


def test_an_early_stop_holds_from_the_epoch_that_asks_or_the_least_one_also_after_a_restart(epochs):
    assert epochs([0.5] * 4, ask_at=2)[1] == [2, 3]
    _, ended, state = epochs([0.5] * 2, ask_at=1, min_epochs=3)
    assert ended == [] and state["asked"]
    assert epochs([0.5], state, first=2, min_epochs=3)[1] == [2]


def test_speed_counts_the_images_of_all_devices_and_goes_on_after_a_restart(parts):
    saving, trainer, module, _ = parts(world_size=2, num_training_batches=1)
    saving.on_train_batch_end(trainer, module, None, [range(8)], 0)
    assert saving.images == 16
    saving.load_state_dict({**saving.state_dict(), "seconds": 0.2, "wall_s": 1000.0})
    assert saving.cost["train_images_per_s"] == 80 and 1000 <= saving.cost["wall_s"] < 1100


def test_a_checkpoint_is_saved_every_so_many_minutes_after_a_step_and_not_within_one(parts, clock):
    saving, trainer, module, saved = parts(minutes=1.0)
    for seconds, steps in ((0, 1), (70, 1), (71, 2), (72, 2)):
        clock(seconds)
        module.steps = steps
        saving.on_train_batch_end(trainer, module, None, [range(8)], 0)
    assert saved == [(0, 2, "last")]


def test_epochs_that_end_within_a_second_share_a_checkpoint(parts, clock):
    saving, trainer, module, saved = parts(max_epochs=6)
    times = [(0.5, 0.2), (0.9, 0.1), (1.1, 0.1), (1.2, 0.3), (1.3, 0.1), (1.4, 0.1)]
    for epoch, (seconds, accuracy) in enumerate(times):
        clock(seconds)
        trainer.current_epoch, module.latest = epoch, {"val": {"accuracy": accuracy}}
        saving.on_train_epoch_end(trainer, module)
    # The best are saved at once, the last epoch always.
    assert saved == [(0, 0, "best"), (2, 0, "last"), (3, 0, "best"), (5, 0, "last")]


def test_a_signal_saves_an_epoch_that_has_just_begun_a_second(parts):
    saving, trainer, module, saved = parts(pending=signal.SIGTERM, current_epoch=1)
    with pytest.raises(Stopped):
        saving.on_train_epoch_end(trainer, module)
    assert saved == [(1, 0, "last")]
