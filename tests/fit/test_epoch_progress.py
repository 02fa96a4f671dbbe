"""Lines within long epochs."""

import logging
import time

import pytest

from cnnpool.fit import epoch_progress, trainer
from cnnpool.fit.module import Net
from cnnpool.system import progress


@pytest.fixture
def slow(monkeypatch):
    """Every third step takes half a second, and an epoch may be silent for a tenth of one."""
    monkeypatch.setattr(epoch_progress, "SILENT_S", 0.1)
    monkeypatch.setattr(progress, "LINES_S", 0.2)
    step = Net.training_step

    def late(module, batch, batch_idx):
        step(module, batch, batch_idx)
        if batch_idx == 2:
            time.sleep(0.5)

    monkeypatch.setattr(Net, "training_step", late)


def test_a_long_epoch_says_in_a_log_how_far_it_is(runs, tmp_path, slow, caplog):
    caplog.set_level(logging.INFO)
    runs.run(tmp_path, probes={}, progress="auto")
    said = [line for line in caplog.messages if line.startswith("epoch 2/2: ")]
    assert said and all(" of 4 batches (" in line for line in said), caplog.messages
    assert any(line.startswith("epoch 2/2: 2 of 4 batches (50 %)") for line in said)


def test_who_wants_no_progress_gets_none(runs, tmp_path, slow, caplog):
    caplog.set_level(logging.INFO)
    runs.run(tmp_path, probes={}, progress=False)
    assert not [line for line in caplog.messages if "batches" in line]


def test_no_thread_is_left_after_an_error(runs, tmp_path, monkeypatch):
    seen = []
    begin = epoch_progress.EpochProgress._begin

    def remember(self, *args):
        begin(self, *args)
        seen.append(self._progress)

    def fail(module, batch, batch_idx):
        raise ArithmeticError

    monkeypatch.setattr(epoch_progress.EpochProgress, "_begin", remember)
    monkeypatch.setattr(Net, "training_step", fail)
    with pytest.raises(ArithmeticError):
        runs.run(tmp_path, probes={}, progress="auto")
    for one in seen:
        one._timer.join(10)
    assert seen and not any(one._timer.is_alive() for one in seen)
    assert trainer.EpochProgress is epoch_progress.EpochProgress
