import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

from cnnpool.run_folder import metrics, status
from cnnpool.run_folder.folder_lock import held

FOLDER = "hydra.run.dir=here"


def test_a_folder_in_use_is_refused_with_the_pid_and_left_alone(call, tmp_path):
    here = tmp_path / "here"
    with held(here):
        status.write(here, "running")
        code, _, err = call("train", *call.quick, FOLDER)
    assert code == 2
    assert err == f"error: {here} is in use by pid {os.getpid()}: wait for it, or stop it\n"
    assert json.loads((here / "status.json").read_text())["state"] == "running"
    assert call("train", *call.quick, FOLDER)[0] == 0


def test_a_full_disk_fails_the_run_in_one_line_and_the_same_command_finishes_it(call, tmp_path, monkeypatch):
    kept, count = os.fsync, [0]

    def full(descriptor):
        count[0] += 1
        if count[0] > 8:
            raise OSError(28, "No space left on device")
        kept(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        status, _, err = call("train", *call.quick, FOLDER)
    assert status == 1
    assert "No space left on device" in err and "the same command goes on" in err and err.count("\n") == 1
    assert call("train", *call.quick, FOLDER)[0] == 0


@pytest.mark.parametrize("target", ["hydra.run.dir=file/run", "out=file"])
def test_a_file_in_the_place_of_a_folder_is_named(call, tmp_path, target):
    (tmp_path / "file").write_text("")
    status, _, err = call("train", *call.quick, target)
    assert status in (1, 2) and "file" in err and err.count("\n") == 1 and "Traceback" not in err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_named(call, tmp_path):
    (tmp_path / "shut").mkdir(mode=0o555)
    status, _, err = call("train", *call.quick, "out=shut")
    assert status in (1, 2) and "shut" in err and err.count("\n") == 1


def test_a_folder_may_be_called_by_a_number(call, in_a_folder):
    assert call("train", *call.quick, "out=2026")[0] == 0
    assert len(list((in_a_folder / "2026").rglob("results.json"))) == 1


def test_a_damaged_results_file_is_named_and_kept(call, tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "results.json").write_text("{half")
    status, _, err = call("train", *call.quick, FOLDER)
    assert status == 2 and "here/results.json is damaged: delete it to train again" in err
    assert (tmp_path / "here" / "results.json").read_text() == "{half"


def test_a_stopped_run_of_other_settings_in_the_same_folder_is_refused(call, tmp_path, monkeypatch):

    def power_cut(*arguments, **options):
        raise RuntimeError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr(sys.modules["cnnpool.fit.record"].Record, "close", power_cut)
        assert call("train", *call.quick, FOLDER)[0] == 1
    status, _, err = call("train", *call.quick, FOLDER, "pool=avg", "fit.lr=0.5")
    assert status == 2
    assert "belongs to a run with other settings (" in err
    assert "pool.name: max -> avg" in err and "fit.lr: 0.01 -> 0.5" in err
    assert "name: max" in (tmp_path / "here" / ".hydra" / "config.yaml").read_text()
    assert call("train", *call.quick, FOLDER)[0] == 0


@pytest.mark.slow
def test_runs_that_save_at_once_in_a_folder_and_below_it_come_to_their_ends(call, tmp_path):
    options = [*call.quick, "fit.epochs=12", "fit.checkpoint_every_minutes=0.0001"]

    def start(folder):
        words = [sys.executable, "-m", "cnnpool", "train", *options, f"hydra.run.dir={folder}"]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    first = start("outer")
    while not (tmp_path / "outer" / "checkpoints" / "last.ckpt").exists():
        assert first.poll() is None
        time.sleep(0.01)
    # Halted wherever it is, most likely in saving, so that it has not ended before the others come.
    first.send_signal(signal.SIGSTOP)
    others = [
        tmp_path / "outer" / ".thesis.tex.part",
        tmp_path / "outer" / "checkpoints" / ".last.ckpt.0123456789abcdef-1.part",
    ]
    for path in others:
        path.write_text("theirs")
    below, second = start("outer/below"), start("outer")
    assert f"is in use by pid {first.pid}: " in second.communicate()[1] and second.returncode == 2
    first.send_signal(signal.SIGCONT)
    assert [one.communicate()[1] for one in (first, below)] == ["", ""]
    assert (first.returncode, below.returncode) == (0, 0)
    assert all(path.read_text() == "theirs" for path in others)
    assert call("train", *options, "hydra.run.dir=alone")[0] == 0
    losses = [
        [one["train/loss"] for one in metrics.read(tmp_path / folder).records if "train/loss" in one]
        for folder in ("outer", "outer/below", "alone")
    ]
    assert losses[0] == losses[1] == losses[2] and len(losses[0]) > 1


def test_nothing_is_written_into_a_folder_put_in_the_place_of_a_runs(call, tmp_path, monkeypatch):
    from cnnpool.launch import run_job

    run = tmp_path / "run"

    def put_another(job):
        run.rename(tmp_path / "moved")
        run.mkdir()
        (run / "mine.txt").write_text("mine")
        raise RuntimeError("its folder is gone")

    monkeypatch.setattr(run_job, "_train", put_another)
    assert call("train", *call.quick, f"hydra.run.dir={run}")[0] == 1
    assert [path.name for path in run.iterdir() if path.name not in (".lock", "train.log")] == ["mine.txt"]
    monkeypatch.undo()
    status, _, err = call("train", *call.quick, f"hydra.run.dir={run}")
    assert status == 2 and "holds files that no run wrote (mine.txt)" in err


def test_a_damaged_image_whose_name_is_not_text_fails_its_job_alone(call, tmp_path):
    for folder in ("odd", "good"):
        for name in ("ant", "bee"):
            (tmp_path / folder / name).mkdir(parents=True)
            for i in range(10):
                pixels = np.full((8, 8, 3), 20 * i, np.uint8)
                Image.fromarray(pixels).save(tmp_path / folder / name / f"{i}.png")
    (tmp_path / "odd" / "ant" / os.fsdecode(b"bad\xff.png")).write_bytes(b"junk")
    roots = f"data.root={tmp_path / 'odd'},{tmp_path / 'good'}"
    quick = [word for word in call.quick if not word.startswith("data")]
    words = [*quick, "data=image_folder", "data.batch_size=4", f"out={tmp_path / 'out'}", roots]
    status, out, err = call("train", "-m", *words)
    assert status == 2 and "2 jobs: 1 failed, 1 done" in out
    assert r"bad\udcff.png" in out + err
