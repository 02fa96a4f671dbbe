import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from short_runs import wait_for

from cnnpool.launch.compose import Request, jobs_of
from cnnpool.launch.job import Job, Outcome
from cnnpool.launch.run_job import failed
from cnnpool.launch.worker import StartError, Worker, start_method
from cnnpool.run_folder.errors import DivergedError
from cnnpool.system.process import for_jobs

MISTAKE = "fit.epochs must be a whole number from 1 to 10^9, got 0"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no server forks processes")


@pytest.fixture(scope="module")
def context():
    with for_jobs(1):
        yield start_method()


def job(folder, devices=1):
    """A job whose recipe is a mistake: it ends, with status 2, before the first step."""
    folder.mkdir(exist_ok=True)
    (one,) = jobs_of(Request(["data.limit=64", "model.width=2", "probe=none", f"hydra.run.dir={folder}"]))
    fit = {**one.settings["fit"], "devices": devices, "epochs": 0}
    return Job(folder, [], {**one.settings, "fit": fit, "out": str(folder.parent)})


def ended(worker):
    return wait_for(worker.poll)


def test_a_mistake_is_told_and_what_was_printed_is_kept(context, tmp_path):
    output = tmp_path / "output.log"
    output.write_text("before\n")
    worker = Worker(job(tmp_path / "run"), context, 1, output)
    assert ended(worker) == Outcome("run", "failed", MISTAKE, 2, output)
    data = "digits: 64 training, 216 validation, 360 test images of 28x28"
    assert output.read_text() == f"before\n{data}\nerror: {MISTAKE}\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_output_that_cannot_be_kept_ends_no_job_and_is_said(context, tmp_path):
    output = tmp_path / "output.log"
    output.symlink_to("/dev/full")
    outcome = ended(Worker(job(tmp_path / "run"), context, 1, output))
    assert (outcome.state, outcome.status) == ("failed", 2)
    assert outcome.message == f"{MISTAKE} (output.log: No space left on device; the rest of it is lost)"


def training(folder, **changes):
    """A real training that never ends by itself."""
    options = ["data.limit=64", "model.width=2", "fit.epochs=99999", "probe=none", "fit.pictures=false"]
    overrides = [*options, *(f"{k}={v}" for k, v in changes.items()), f"hydra.run.dir={folder}"]
    (one,) = jobs_of(Request(overrides))
    return one


def checkpoint(folder):
    wait_for((folder / "checkpoints" / "last.ckpt").exists)


def state(folder):
    return json.loads((folder / "status.json").read_text())


def test_a_job_killed_by_us_was_stopped(context, tmp_path):
    folder = tmp_path / "run"
    worker = Worker(training(folder), context, 1, tmp_path / "output.log")
    checkpoint(folder)
    worker.kill()
    outcome = ended(worker)
    assert outcome.state == state(folder)["state"] == "stopped" and "second signal" in outcome.message


@pytest.mark.slow
def test_a_killed_process_of_several_is_one_line_and_takes_the_others_along(context, tmp_path):
    folder = tmp_path / "run"
    worker = Worker(training(folder, **{"fit.devices": 2}), context, 1, tmp_path / "output.log")
    checkpoint(folder)
    os.kill(worker._ranks[1].process.pid, signal.SIGKILL)
    outcome = ended(worker)
    said = "process 2 of 2 killed by SIGKILL (out of memory?)"
    assert (outcome.state, outcome.message, outcome.status) == ("failed", said, 1)
    assert state(folder)["error"] == said
    assert not any(rank.process.is_alive() for rank in worker._ranks)


def test_a_training_that_the_second_process_was_first_to_see_diverge_has_diverged(tmp_path):
    class Ended:
        """A process that has ended; a later one, earlier."""

        def __init__(self, target, args):
            self.job, *_, environment, self.reports = args
            self.rank = int(environment["LOCAL_RANK"])

        def start(self):
            self.reports.send((-self.rank, failed(self.job, DivergedError(f"{self.rank} diverged"))))

        def join(self, timeout):
            pass

    context, folder = SimpleNamespace(Pipe=multiprocessing.Pipe, Process=Ended), tmp_path / "run"
    assert ended(Worker(job(folder, devices=2), context, 1, None)).message == "1 diverged"
    assert (state(folder)["error"], state(folder)["diverged"]) == ("1 diverged", True)


def test_jobs_save_and_stop_when_the_process_that_waits_for_them_is_killed(tmp_path):
    command = [
        sys.executable, "-m", "cnnpool", "train", "-m", "launch=processes", "launch.jobs=2", "seed=0,1",
        "data.limit=64", "model.width=2", "fit.epochs=99999", "probe=none", "fit.pictures=false",
    ]  # fmt: skip
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) as sweep:
        try:
            wait_for(lambda: len(list(tmp_path.rglob("last.ckpt"))) == 2)
        finally:
            sweep.kill()
    folders = [path.parent for path in tmp_path.rglob("status.json")]
    wait_for(lambda: {state(folder)["state"] for folder in folders} == {"stopped"})
    assert all("stopped by SIGTERM at step" in state(folder)["error"] for folder in folders)


PRELOAD = """
import pickle, sys
import torch
asked = []
names = ("is_available", "device_count", "init", "_lazy_init")
theirs = {name: getattr(torch.cuda, name) for name in names}
for name in names:
    setattr(torch.cuda, name, lambda name=name: asked.append(name))
import cnnpool.launch.preload
print(asked, torch.get_num_threads())
for name in names:
    setattr(torch.cuda, name, theirs[name])
from cnnpool.launch.run_job import run
job, known = pickle.loads(bytes.fromhex(sys.argv[1])), set(sys.modules)
outcome = run(job)
# Numba imports parts of itself where no compiled kernel is at hand yet.
parts = "torch.utils.", "numba."
later = {name.partition(".")[0] for name in sys.modules.keys() - known if not name.startswith(parts)}
print(outcome.state, sorted(later), flush=True)
"""


def test_the_server_of_processes_has_looked_for_no_gpu_and_imported_what_a_job_needs(tmp_path):
    options = ["data.limit=64", "model.width=2", "fit.epochs=1", "fit.pictures=false"]
    (one,) = jobs_of(Request([*options, f"hydra.run.dir={tmp_path / 'run'}"]))
    command = [sys.executable, "-c", PRELOAD, pickle.dumps(one).hex()]
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert (lines[0], lines[-1], done.stderr) == ("[] 2", "done []", "")


def test_a_server_that_cannot_start_a_process_fails_the_job(context, tmp_path, monkeypatch):
    def start(process):
        raise EOFError

    monkeypatch.setattr(context.Process, "start", start)
    with pytest.raises(StartError, match="is there enough memory"):
        Worker(job(tmp_path / "run"), context, 1, None)


def test_jobs_can_be_stopped_once_the_server_that_forked_them_is_killed(context, tmp_path):
    folders = [tmp_path / name for name in "ab"]
    first, second = (Worker(training(f), context, 1, f.with_suffix(".log")) for f in folders)
    for folder in folders:
        checkpoint(folder)
    process = first._ranks[0].process
    stat = Path(f"/proc/{process.pid}/stat").read_text()
    os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)
    wait_for(lambda: not process.is_alive())
    assert first.poll() is second.poll() is None, "the jobs go on"
    first.send_signal(signal.SIGTERM)
    outcome = ended(first)
    assert (outcome.state, outcome.status) == ("stopped", 128 + signal.SIGTERM)
    assert state(folders[0])["state"] == "stopped"
    os.kill(state(folders[1])["pid"], signal.SIGKILL)
    outcome = ended(second)
    said = "ended early, as did the process that started it and would know why"
    assert (outcome.state, outcome.message) == ("failed", said)
