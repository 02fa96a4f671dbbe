"""The facts besides settings that a checkpoint must match, so that no run goes on as another or too far."""

from dataclasses import replace

import pytest
from lightning.pytorch import Trainer

from cnnpool.data import build
from cnnpool.fit import run_state
from cnnpool.run_folder.checkpoint import Checkpoint


@pytest.fixture
def asked(runs, tmp_path):
    return lambda **options: runs.prepared(tmp_path, probes={}, **options).classifier.header["asked"]


def test_another_precision_other_images_or_a_callback_are_another_run(asked, monkeypatch):
    found = [asked(), asked(callbacks={"early_stopping": {"patience": 2}})]
    with monkeypatch.context() as patch:
        patch.setattr("cnnpool.training.data.build", lambda **options: replace(build(**options), sha256="0"))
        found.append(asked())
    monkeypatch.setattr("cnnpool.fit.trainer.fast_precision", lambda: "16-mixed")
    found.append(asked())
    assert all(one != other for i, one in enumerate(found) for other in found[:i])


def test_a_checkpoint_of_other_settings_is_refused_and_one_of_the_same_gone_on_from(
    runs, tmp_path, monkeypatch
):
    run = runs.prepared(tmp_path, probes={})
    weights, header = run.classifier.state_dict(), {**run.classifier.header, "steps": 1, "total_steps": 8}
    other = header | {"asked": runs.prepared(tmp_path, probes={}, lr=0.5).classifier.header["asked"]}
    found = [
        Checkpoint(tmp_path / "last.ckpt", {"cnnpool": one, "state_dict": weights}) for one in (header, other)
    ]
    monkeypatch.setattr(run_state, "latest", lambda _: found[0])
    assert run_state.resume(run) is found[0]
    monkeypatch.setattr(run_state, "latest", lambda _: found[1])
    with pytest.raises(ValueError, match=r"other settings \(fit\.lr"):
        run_state.resume(run)


def test_a_run_that_stopped_early_and_was_killed_before_its_test_trains_no_further(
    runs, tmp_path, monkeypatch
):
    stopping = {"early_stopping": {"patience": 1}}
    options = {"epochs": 4, "limit": 128, "lr": 1e-30, "probes": {}, "callbacks": stopping}
    with monkeypatch.context() as patch:
        patch.setattr("cnnpool.fit.results.test", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            runs.run(tmp_path, **options)
    monkeypatch.setattr(Trainer, "fit", lambda *_, **__: pytest.fail("it trains on"))
    assert runs.run(tmp_path, **options)[0].epochs == 2


def test_settings_are_saved_where_a_folder_for_checkpoints_is_there_and_empty(runs, tmp_path):
    (tmp_path / "checkpoints").mkdir()
    runs.prepared(tmp_path)
    assert (tmp_path / ".hydra" / "config.yaml").exists()
