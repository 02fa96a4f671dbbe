import json
import os
import re
import shutil
import signal
import time
from contextlib import closing
from types import SimpleNamespace

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from cnnpool.fit import Classifier, DivergedError, results, run_state
from cnnpool.fit.checkpoints import Checkpoints, SafeCheckpointIO
from cnnpool.fit.record import Record
from cnnpool.probe import GradientRouting
from cnnpool.run_folder import layout
from cnnpool.run_folder.checkpoint import SCHEMA, load
from cnnpool.run_folder.errors import DamagedError, LostError
from cnnpool.system.signals import Signals, Stopped

EVERY_AUGMENTATION = {
    **{"random_resized_crop": (0.3, 1.0), "flip": True, "auto_augment": "trivialaugment"},
    **{"color_jitter": 0.4, "mixup": 0.2, "cutmix": 1.0},
}
RECIPES = {
    "one_cycle": {},
    "augmented": {
        **{"images": EVERY_AUGMENTATION, "accumulate": 2, "precision": "bf16-mixed"},
        **{"schedule": "cosine", "optimizer": "muon"},
    },
    "sgd": {
        **{"optimizer": "sgd", "lr": 0.05, "accumulate": 2, "warmup": 0.0},
        "probes": {
            "invariance": {"samples": 32, "stage_samples": 8, "max_shift_px": 2, "worst_px": 0},
            "aliasing": {"samples": 4},
        },
    },
}
EVERY = {"epochs": 3, "operator": "stochastic", "batch_size": 32, "probes": {"gradient": {"samples": 16}}}
"""Three epochs of 8 steps with random shifts, stochastic pooling and dropout."""


@pytest.fixture(autouse=True)
def every_epoch(monkeypatch):
    """Saves after epochs of less than a second too."""
    monkeypatch.setattr("cnnpool.fit.checkpoints.SHORTEST_S", 0.0)


@pytest.fixture(scope="module")
def whole(runs, tmp_path_factory):
    """Runs never stopped, by the name of their recipe."""
    made = {}

    def get(name):
        if name not in made:
            out = tmp_path_factory.mktemp(name)
            made[name] = out, runs.run(out, **EVERY | RECIPES[name])[1]
        return made[name]

    return get


def cut(monkeypatch, step, how, hook="on_train_batch_end"):
    """Let ``how()`` happen after the callbacks of ``step``, for the next run."""
    kept = getattr(Checkpoints, hook)

    def then(self, trainer, module, *rest):
        kept(self, trainer, module, *rest)
        if module.steps == step:
            monkeypatch.setattr(Checkpoints, hook, kept)
            how()

    monkeypatch.setattr(Checkpoints, hook, then)


def power_cut():
    raise RuntimeError("power cut")


@pytest.fixture
def kill(runs, monkeypatch):
    """A function: run with these options up to ``step``, when the power is cut."""

    def run(out, step, hook="on_train_batch_end", **options):
        cut(monkeypatch, step, power_cut, hook)
        with pytest.raises(RuntimeError, match="power cut"):
            runs.run(out, **options)

    return run


def assert_equal(runs, one, other, *nets):
    assert runs.same(*nets)
    assert runs.metrics(one) == runs.metrics(other)
    a, b = runs.results(one), runs.results(other)
    a["fit"].pop("checkpoint_every_minutes"), b["fit"].pop("checkpoint_every_minutes")
    assert a == b


@pytest.mark.parametrize(
    ("recipe", "step", "minutes", "saved"),
    [("one_cycle", 13, 10.0, 8), ("augmented", 11, 0.0, 11), ("sgd", 22, 0.0, 22)],
)
def test_a_run_cut_within_an_epoch_goes_on_to_the_same_bits(
    runs, whole, kill, tmp_path, recipe, step, minutes, saved
):
    out, net = whole(recipe)
    options = EVERY | RECIPES[recipe] | {"checkpoint_every_minutes": minutes}
    # The second time in the first part of a batch.
    for _ in range(2):
        kill(tmp_path, step, **options)
    path = tmp_path / "checkpoints" / "last.ckpt"
    assert load(path)["cnnpool"]["steps"] == saved
    before = trained_s(path)
    assert_equal(runs, out, tmp_path, net, runs.run(tmp_path, **options)[1])
    assert trained_s(path) > before


def trained_s(path):
    (seconds,) = (state["seconds"] for state in load(path)["callbacks"].values() if "seconds" in state)
    return seconds


@pytest.mark.parametrize("step", [8, 24])
def test_a_run_cut_between_epochs_or_before_its_test_goes_on_to_the_same_bits(
    runs, whole, kill, tmp_path, step
):
    out, net = whole("one_cycle")
    kill(tmp_path, step, "on_train_epoch_end", **EVERY)
    assert not (tmp_path / "results.json").exists()
    results, resumed = runs.run(tmp_path, **EVERY)
    assert_equal(runs, out, tmp_path, net, resumed)
    assert results.measured["cost"]["train_images_per_s"] > 0


@pytest.mark.parametrize(
    ("signum", "hook", "step"),
    [
        (signal.SIGINT, "on_train_batch_end", 11),
        (signal.SIGTERM, "on_train_epoch_end", 16),
    ],
)
def test_a_signal_saves_at_once_and_the_run_goes_on_to_the_same_bits(
    runs, whole, tmp_path, monkeypatch, signum, hook, step
):
    out, net = whole("one_cycle")
    kept = getattr(Checkpoints, hook)

    def with_signal(self, trainer, module, *rest):
        if module.steps == step:
            os.kill(os.getpid(), signum)
        kept(self, trainer, module, *rest)

    before = signal.getsignal(signum)
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, hook, with_signal)
        with pytest.raises(Stopped, match=f"stopped by {signum.name} at step {step}") as stop:
            runs.run(tmp_path, **EVERY)
    assert stop.value.status == 128 + signum
    assert signal.getsignal(signum) is before
    assert load(tmp_path / "checkpoints" / "last.ckpt")["cnnpool"]["steps"] == step
    assert_equal(runs, out, tmp_path, net, runs.run(tmp_path, **EVERY)[1])


@pytest.mark.parametrize("val_size", [0, 0.15])
def test_speed_is_that_of_training_steps_alone_across_a_restart(runs, kill, tmp_path, monkeypatch, val_size):
    clock = [0.0]

    def takes(owner, name, seconds):
        kept = getattr(owner, name)

        def slow(*args, **options):
            clock[0] += seconds(*args)
            return kept(*args, **options)

        monkeypatch.setattr(owner, name, slow)

    monkeypatch.setattr("cnnpool.system.load.time", SimpleNamespace(perf_counter=lambda: clock[0]))
    takes(Classifier, "training_step", lambda *_: 1)
    takes(Classifier, "validation_step", lambda *_: 100)
    takes(GradientRouting, "read", lambda *_: 100)
    takes(SafeCheckpointIO, "save_checkpoint", lambda io, content, path, *_: 100 * (path.name == layout.BEST))
    options = EVERY | {"images": {"val_size": val_size}, "checkpoint_every_minutes": 0.0}
    kill(tmp_path, 11, **options)
    assert runs.run(tmp_path, **options)[0].measured["cost"]["train_images_per_s"] == 32


def test_a_run_that_had_stopped_early_is_trained_to_its_least_epochs(runs, kill, tmp_path, monkeypatch):
    """Also where an epoch after the one that asked for the end is better than all before."""
    scores = iter([0.5, 0.4, 0.9, 0.95])
    kept = Classifier._take

    def scored(module, split):
        found = kept(module, split)
        return found | {"accuracy": next(scores)} if split == "val" else found

    monkeypatch.setattr(Classifier, "_take", scored)
    stopping = {"early_stopping": {"patience": 1}}
    options = EVERY | {"epochs": 6, "callbacks": stopping, "probes": {}, "trainer": {"min_epochs": 4}}
    kill(tmp_path, 16, "on_train_epoch_end", **options)
    assert runs.run(tmp_path, **options)[0].steps == 8 * 4


def test_every_signal_that_asks_for_the_end_is_heard():
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2):
        before = signal.getsignal(signum)
        with pytest.raises(Stopped, match=signum.name) as stop, Signals():
            os.kill(os.getpid(), signum)
        assert stop.value.status == 128 + signum and signal.getsignal(signum) is before


def test_a_run_under_nohup_outlives_its_terminal():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals() as signals:
            os.kill(os.getpid(), signal.SIGHUP)
            assert signals.pending is None
            with pytest.raises(Stopped, match="SIGTERM"):
                os.kill(os.getpid(), signal.SIGTERM)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_second_signal_stops_at_once_and_leaves_the_checkpoint_whole(runs, tmp_path, monkeypatch):
    def impatient(self, trainer, module):
        if module.steps == 16:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            pytest.fail("went on after the second signal")

    monkeypatch.setattr(Checkpoints, "on_validation_start", impatient)
    with pytest.raises(Stopped):
        runs.run(tmp_path, **EVERY)
    assert load(tmp_path / "checkpoints" / "last.ckpt")["cnnpool"]["steps"] == 8


def test_a_signal_after_the_training_stops_at_once(runs, tmp_path, monkeypatch):
    def stop(self, batch, batch_idx):
        os.kill(os.getpid(), signal.SIGTERM)
        pytest.fail("went on after the signal")

    monkeypatch.setattr(Classifier, "test_step", stop)
    with pytest.raises(Stopped):
        runs.run(tmp_path)


def test_a_damaged_checkpoint_gives_way_to_the_one_before(runs, whole, kill, tmp_path, monkeypatch, caplog):
    out, net = whole("one_cycle")
    kill(tmp_path, 16, "on_train_epoch_end", **EVERY)
    (tmp_path / "checkpoints" / "last.ckpt").write_bytes(b"no zip")
    with monkeypatch.context() as patch, caplog.at_level("INFO"):
        patch.setattr(run_state, "kernels_in_use", lambda: "other")
        again = runs.run(tmp_path, **EVERY)[1]
    assert "resumed at step 8 of 24" in caplog.text
    assert "last.ckpt is damaged" in caplog.text and "going on from previous.ckpt" in caplog.text
    assert re.search("with compiled kernels: .* so far, now with .* other: the last bits", caplog.text)
    assert_equal(runs, out, tmp_path, net, again)


def test_a_checkpoint_that_does_not_fit_is_refused_by_what_differs(runs, kill, tmp_path):
    kill(tmp_path, 8, "on_train_epoch_end", **EVERY)
    path = tmp_path / "checkpoints" / "last.ckpt"
    whole, content = path.read_bytes(), load(path)
    # Plain numbers, and no path.
    assert str(tmp_path) not in json.dumps(content, default=lambda value: "tensor")
    with pytest.raises(ValueError, match=r"pool.name: stochastic -> avg; fit.epochs: 3 -> 4"):
        runs.run(tmp_path, **EVERY | {"operator": "avg", "epochs": 4})
    key = next(iter(content["state_dict"]))
    others = [({**content, "state_dict": {**content["state_dict"], key: torch.zeros(9, 9)}}, r"\[9, 9\] -> ")]
    for off, remedy in ((1, "update it"), (-1, "delete it to train anew")):
        others.append(({**content, "cnnpool": {**content["cnnpool"], "schema": SCHEMA + off}}, remedy))
    for other, match in (*others, ({"weights": 1}, "not a checkpoint of cnnpool")):
        SafeCheckpointIO().save_checkpoint(other, path)
        with pytest.raises((ValueError, DamagedError), match=match):
            runs.run(tmp_path, **EVERY)
    path.write_bytes(b"no zip")
    with pytest.raises(DamagedError, match=r"last\.ckpt is damaged.*delete it"):
        runs.run(tmp_path, **EVERY)
    path.write_bytes(whole)
    (tmp_path / "metrics.jsonl").write_text("")
    with pytest.raises(ValueError, match=r"metrics\.jsonl has lost lines"):
        runs.run(tmp_path, **EVERY)


def test_weights_that_are_not_finite_are_never_saved(runs, tmp_path, monkeypatch):
    kept = Classifier.on_train_epoch_end

    def spoil(module):
        kept(module)
        if module.steps == 16:
            next(module.parameters()).data.view(-1)[0] = float("nan")

    monkeypatch.setattr(Classifier, "on_train_epoch_end", spoil)
    with pytest.raises(DivergedError, match="nan or infinite by step 16"):
        runs.run(tmp_path, **EVERY)
    saved = load(tmp_path / "checkpoints" / "last.ckpt")
    assert saved["cnnpool"]["steps"] == 8
    assert all(value.isfinite().all() for value in saved["state_dict"].values())


def test_a_folder_that_is_replaced_under_a_run_fails_it(runs, tmp_path, monkeypatch):
    out, gone = tmp_path / "run", tmp_path / "gone"

    def replaced():
        os.rename(out, gone)
        out.mkdir()
        layout.begin(out)
        for name in ("metrics.jsonl", "events.out.tfevents.1"):
            shutil.copy(next(gone.glob(f"{name}*")), out / name)

    cut(monkeypatch, 11, replaced)
    with pytest.raises(LostError, match=r"was deleted or replaced while its run was running"):
        runs.run(out, **EVERY)
    assert not (out / "results.json").exists() and not (out / "checkpoints").exists()


def test_a_run_of_which_a_checkpoint_was_deleted_is_not_finished(runs, tmp_path, monkeypatch):
    cut(monkeypatch, 24, (tmp_path / "checkpoints" / "best.ckpt").unlink, "on_train_epoch_end")
    with pytest.raises(LostError, match=r"best\.ckpt was deleted or replaced while its run was running"):
        runs.run(tmp_path, **EVERY)
    assert not (tmp_path / "results.json").exists()


HEADLINES = {f"accuracy/{split}": f"{split}/accuracy" for split in ("train", "val", "test")}
"""Charts in TensorBoard's first group under another name -> the scalars that they repeat."""


def scalars(out):
    events = EventAccumulator(str(out), size_guidance={"scalars": 0}, purge_orphaned_data=False).Reload()
    return {tag: events.Scalars(tag) for tag in events.Tags()["scalars"]}


def test_a_number_stands_once_in_tensorboard_however_often_the_end_was_killed(runs, tmp_path, monkeypatch):
    # Between its closing record and results.json.
    with monkeypatch.context() as patch:
        patch.setattr(results, "write", lambda *_: power_cut())
        for _ in range(2):
            with pytest.raises(RuntimeError, match="power cut"):
                runs.run(tmp_path, **EVERY)
    runs.run(tmp_path, **EVERY)
    found = scalars(tmp_path)
    assert len(found["test/accuracy"]) == 1 and len(found["val/accuracy"]) == 3
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    for name, points in found.items():
        tag = name.removeprefix("a_first_look/")
        tag = HEADLINES.get(tag, tag)
        logged = [(line["step"], line[tag]) for line in lines if tag in line]
        assert [point.step for point in points] == [step for step, _ in logged]
        assert [point.value for point in points] == pytest.approx([value for _, value in logged])
    assert len(list(tmp_path.glob("events.out.tfevents.*"))) == 1
    # Lightning's callbacks log without an epoch: a resumed record knows the last one.
    with closing(Record(tmp_path, (tmp_path / "metrics.jsonl").stat().st_size)) as resumed:
        assert resumed.epoch == lines[-1]["epoch"] == 3


def test_order_and_times_in_tensorboard_outlive_a_clock_that_is_set_back(runs, kill, tmp_path, monkeypatch):
    kill(tmp_path, 11, **EVERY)
    before = {point.step: point.wall_time for point in scalars(tmp_path)["train/loss"]}
    true = time.time
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: true() - 100_000)
        runs.run(tmp_path, **EVERY)
    points = scalars(tmp_path)["train/loss"]
    assert [point.step for point in points] == sorted(point.step for point in points)
    times = [point.wall_time for point in points]
    assert times == sorted(times)
    kept = [point for point in points if point.step in before and point.step <= 8]
    assert kept and all(point.wall_time == before[point.step] for point in kept)
