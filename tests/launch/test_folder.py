import json
import os
import signal

import numpy as np
import pytest
from PIL import Image

from cnnpool.launch import run_job
from cnnpool.launch.job import Job, Outcome
from cnnpool.run_folder import status
from cnnpool.run_folder.folder_lock import held
from cnnpool.system.signals import Stopped

FOLDER = "hydra.run.dir=here"


def test_a_folder_in_use_is_refused_with_the_pid_and_left_alone(call, tmp_path):
    here = tmp_path / "here"
    with held(here):
        status.write(here, "running")
        err = call.refused(*call.quick, FOLDER)
    assert err == f"error: {here} is in use by pid {os.getpid()}: wait for it, or stop it\n"
    assert json.loads((here / "status.json").read_text())["state"] == "running"
    assert call("train", *call.quick, FOLDER)[0] == 0
    (tmp_path / "other" / ".lock").mkdir(parents=True)
    code, _, err = call("train", *call.quick, "hydra.run.dir=other")
    assert code == err.count("\n") == 1 and "other/.lock: Is a directory; fix that" in err


def test_a_finished_run_is_left_alone_where_its_folder_cannot_be_locked(call, tmp_path):
    assert call("train", *call.quick, FOLDER)[0] == 0
    (tmp_path / "here" / ".lock").unlink()
    (tmp_path / "here" / ".lock").mkdir()
    before = (tmp_path / "here" / "results.json").stat().st_mtime_ns
    code, out, err = call("train", *call.quick, FOLDER)
    assert (code, err) == (0, "") and "here is finished already" in out
    assert (tmp_path / "here" / "results.json").stat().st_mtime_ns == before
    said = "holds a finished run with other settings (fit.lr: 0.01 -> 0.5)"
    assert said in call.refused(*call.quick, FOLDER, "fit.lr=0.5")
    assert ".lock: Is a directory; fix that" in call("train", *call.quick, FOLDER, "overwrite=true")[2]


def test_a_folder_may_be_called_by_a_number(call, in_a_folder):
    assert call("train", *call.quick, "out=2026")[0] == 0
    assert len(list((in_a_folder / "2026").rglob("results.json"))) == 1


def test_a_damaged_results_file_is_named_and_kept(call, tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "results.json").write_text("{half")
    assert "here/results.json is damaged: delete it to train again" in call.refused(*call.quick, FOLDER)
    assert (tmp_path / "here" / "results.json").read_text() == "{half"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_log_that_cannot_be_kept_ends_no_run_and_is_said(call, tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "train.log").symlink_to("/dev/full")
    said = f"{tmp_path / 'here' / 'train.log'}: No space left on device; the rest of it is lost\n"
    assert call("train", *call.quick, FOLDER)[::2] == (0, said)


def test_nothing_is_written_into_a_folder_put_in_the_place_of_a_runs(call, tmp_path, monkeypatch):
    run, states = tmp_path / "run", []

    def put_another(job):
        states.append(status.read(run).state)
        run.rename(tmp_path / "moved")
        run.mkdir()
        (run / "mine.txt").write_text("mine")
        raise RuntimeError("its folder is gone")

    monkeypatch.setattr(run_job, "_train", put_another)
    assert call("train", *call.quick, f"hydra.run.dir={run}")[0] == 1
    assert states == ["running"]
    assert [path.name for path in run.iterdir() if path.name not in (".lock", "train.log")] == ["mine.txt"]
    monkeypatch.undo()
    assert "holds files that no run wrote (mine.txt)" in call.refused(*call.quick, f"hydra.run.dir={run}")
    assert run_job.outcome_if_done(Job(run, [], {})).state == "refused"


def test_a_run_that_was_to_overwrite_resumes_without_that_word(call, tmp_path, monkeypatch):
    def stop(job):
        raise Stopped(signal.SIGTERM, "stopped by SIGTERM at step 1")

    monkeypatch.setattr(run_job, "_train", stop)
    for more, remedy in ((), "the same command"), (["overwrite=true"], "without overwrite=true"):
        code, _, err = call("train", *call.quick, FOLDER, *more)
        assert (code, err) == (143, f"stopped: by SIGTERM at step 1; rerun {remedy} to resume\n")


def test_a_run_whose_process_is_lost_has_failed_in_its_folder_too(tmp_path):
    job, log = Job(tmp_path / "run", [], {"out": str(tmp_path)}), tmp_path / "log"
    assert run_job.lost(job, "gone", log) == Outcome("run", "failed", "gone", 1, log)
    assert status.read(job.folder).error == "gone"


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
