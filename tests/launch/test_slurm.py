"""Sweeps on SLURM: by stand-ins for its commands, submitit's local executor, and a cluster that answers."""

import json
import os
import signal
import subprocess
import sys

import pytest
from short_runs import PATIENCE_S, wait_for

pytest.importorskip("submitit", reason="needs pip install 'cnnpool[slurm]'")
from submitit.core.utils import DelayedSubmission, JobPaths, cloudpickle_dump

from cnnpool.launch import run_slurm
from cnnpool.launch.job import Job, Outcome
from cnnpool.run_folder import status as run_status

LOCAL = ["-m", "launch=slurm", "launch.cluster=local", "launch.threads=1"]


SBATCH = """#!{python}
import re, sys
found = re.search(r"--array='?0-([0-9]+)%([0-9]+)", open(sys.argv[1]).read())
count, at_once = (int(found[1]) + 1, found[2]) if found else (1, 1)
if count > {most}:
    sys.exit("sbatch: error: QOSMaxSubmitJobPerUserLimit")
with open("{folder}/submitted", "a+") as file:
    print(count, at_once, file=file)
    file.seek(0)
    print("Submitted batch job", len(file.readlines()))
"""


class Cluster:
    """Stands for SLURM: ``sbatch`` numbers its jobs, and ``steps`` say what each look at the queue finds.

    A step is the state of all jobs, or a list in their order; DONE leaves a result first, GONE is not listed,
    and None is no answer.
    """

    def __init__(self, folder, steps):
        self.folder, self.steps, self.looks, self.at_look = folder, steps, 0, {}

    def submitted(self):
        """(jobs, how many of them at once) of every submission."""
        path = self.folder / "submitted"
        lines = path.read_text().splitlines() if path.exists() else []
        return [tuple(map(int, line.split())) for line in lines]

    def jobs(self):
        for number, (count, _) in enumerate(self.submitted(), 1):
            yield from (f"{number}_{index}" if count > 1 else f"{number}" for index in range(count))

    def job(self, number):
        paths = JobPaths(self.folder / "outputs" / ".slurm", number)
        return DelayedSubmission.load(paths.submitted_pickle).function.job

    def ask(self, *words):
        if words[0] == "scontrol":
            return "MaxArraySize            = 4\n"
        if "-u" in words:
            return "\n".join(self.jobs())
        self.looks += 1
        self.at_look.get(self.looks, int)()
        step = self.steps[min(self.looks, len(self.steps)) - 1]
        states = step if isinstance(step, list) else [step] * len(list(self.jobs()))
        return None if step is None else "".join(map(self.line, self.jobs(), states))

    def line(self, number, state):
        paths = JobPaths(self.folder / "outputs" / ".slurm", number)
        if state == "DONE" and not paths.result_pickle.exists():
            job = self.job(number)
            cloudpickle_dump(("success", Outcome(job.name, "done", "", 0, job.folder)), paths.result_pickle)
        return "" if state == "GONE" else f"{number}|{state.replace('DONE', 'COMPLETED')}|None\n"


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A function that makes a cluster of which the queue goes through the given steps."""
    for name in ("POLL_S", "QUEUE_S"):
        monkeypatch.setattr(run_slurm, name, 0)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")

    def stand_in(*steps, most=100):
        sbatch = SBATCH.format(python=sys.executable, folder=tmp_path, most=most)
        scancel = f'#!/bin/sh\necho "$*" >> {tmp_path}/cancelled\n'
        for name, body in (("srun", "#!/bin/sh\n"), ("scancel", scancel), ("sbatch", sbatch)):
            (tmp_path / "bin" / name).write_text(body)
            (tmp_path / "bin" / name).chmod(0o755)
        made = Cluster(tmp_path, steps)
        monkeypatch.setattr(run_slurm, "ask", made.ask)
        return made

    return stand_in


def seeds(call, count, *options):
    return call("train", "-m", "launch=slurm", f"seed=range({count})", *options, *call.quick)


def test_a_job_that_the_queue_lost_twice_has_failed_and_one_on_its_way_back_has_not(call, cluster):
    made = cluster(
        ["RUNNING", "GONE", "RUNNING"], None, ["DONE", "RUNNING", "CANCELLED"], ["DONE", "GONE", "RUNNING"],
        ["DONE", "GONE", "CANCELLED"], ["DONE", "GONE", "DONE"],
    )  # fmt: skip
    status, out, err = seeds(call, 3)
    assert status == 1 and "3 jobs: 2 done, 1 failed" in out
    assert err.count("\n") == 1
    assert "seed1: left the queue without a result (cancelled?); rerun the same command to resume" in err
    assert made.submitted() == [(3, 3)]


def test_arrays_are_as_large_as_the_cluster_takes_and_so_many_jobs_run_at_once(call, cluster):
    made = cluster("PENDING", ["DONE"] + 3 * ["RUNNING"], ["DONE"] * 3 + ["RUNNING"], "DONE")
    status, out, _ = seeds(call, 6, "launch.jobs=3")
    assert status == 0 and "6 jobs: 6 done" in out
    assert made.submitted() == [(4, 3), (2, 2)]


def test_a_user_who_may_submit_few_jobs_submits_few_at_a_time(call, cluster):
    made = cluster("DONE", most=1)
    assert seeds(call, 4, "launch.jobs=1")[0] == 0
    assert made.submitted() == [(1, 1)] * 4


def test_a_signal_cancels_all_jobs_at_once_and_waits_for_those_that_save(call, cluster, tmp_path):
    made = cluster("PENDING", ["RUNNING"] + ["PENDING"] * 2, ["RUNNING"] + ["CANCELLED"] * 2, ["DONE"])

    def saved_and_interrupted():
        folder = made.job("1_1").folder
        folder.mkdir(parents=True)
        run_status.write(folder, "stopped", "stopped by SIGUSR2 at step 7", 140)
        os.kill(os.getpid(), signal.SIGINT)

    made.at_look[2] = saved_and_interrupted
    status, out, err = seeds(call, 3)
    assert status == 128 + signal.SIGINT and "3 jobs: 1 done, 1 stopped, 1 not run" in out
    assert "seed1: by SIGUSR2 at step 7" in err
    assert (tmp_path / "cancelled").read_text() == "1_0 1_1 1_2\n"


def test_a_cluster_that_does_not_answer_holds_a_stopped_command_for_a_time_only(call, cluster, monkeypatch):
    monkeypatch.setattr(run_slurm, "END_S", 0)
    made = cluster("PENDING", None)
    made.at_look[2] = lambda: os.kill(os.getpid(), signal.SIGTERM)
    assert seeds(call, 3)[0] == 128 + signal.SIGTERM and made.looks == 2
    # scancel did not reach them either: the same command takes over those that it would submit.
    made.steps = ["DONE"]
    status, out, _ = seeds(call, 3, "pool=max")
    assert status == 0 and "3 jobs are in the queue already" in out and made.submitted() == [(3, 3)]
    assert seeds(call, 3, "fit.lr=0.5")[0] == 0 and made.submitted() == [(3, 3)] * 2


def test_a_reason_to_wait_that_does_not_pass_is_said_once(capfd, monkeypatch):
    lines = "1_0|PENDING|Priority\n1_1|PENDING|PartitionTimeLimit\n1_2|RUNNING|None\n"
    monkeypatch.setattr(run_slurm, "ask", lambda *words: lines)
    queue = run_slurm.Queue()
    assert queue.ended(["1_0", "1_1"]) == queue.ended(["1_2"]) == {}
    assert capfd.readouterr().err == "launch=slurm: a job waits: PartitionTimeLimit\n"


SHOWN = {
    "JobState=RUNNING Restarts=0 PreemptTime=2026-01-01T00:00:00 Requeue=1": True,
    "JobState=COMPLETING Restarts=2 PreemptTime=None": True,
    "JobState=RUNNING Restarts=1 PreemptTime=None": False,
    "JobState=COMPLETING Restarts=1 PreemptTime=None": False,
    "": False,
}


@pytest.mark.parametrize(("shown", "again"), SHOWN.items())
def test_a_job_that_gives_way_leaves_no_result_and_a_cancelled_one_does(tmp_path, monkeypatch, shown, again):
    asked = []
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    monkeypatch.setattr(run_slurm, "ask", lambda *words: asked.append(words) or shown)
    stop = Outcome("a", "stopped", "", 128 + signal.SIGTERM, tmp_path)
    monkeypatch.setattr(run_slurm, "run", lambda job: stop)
    task = run_slurm.Task(Job(tmp_path, [], {}), tmp_path, 1)
    if again:
        with pytest.raises(SystemExit):
            task()
    else:
        assert task() is stop
    assert (("scontrol", "requeue", "7") in asked) == ("PreemptTime=2026" in shown)


def test_a_job_whose_time_is_up_thrice_without_a_checkpoint_has_failed(tmp_path, monkeypatch):
    requeued, last = [], tmp_path / "checkpoints" / "last.ckpt"
    last.parent.mkdir()

    def requeue(*args):
        requeued.append(args)
        raise SystemExit

    def run(job):
        if len(requeued) == 1:
            last.touch()
        return Outcome("a", "stopped", "", 128 + signal.SIGUSR2, tmp_path)

    monkeypatch.setattr(run_slurm, "run", run)
    before = signal.signal(signal.SIGUSR2, requeue)
    try:
        task = run_slurm.Task(Job(tmp_path, [], {}), tmp_path, 1)
        for _ in range(4):
            with pytest.raises(SystemExit):
                task()
        outcome = task()
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert (outcome.state, outcome.status) == ("failed", 1) and "raise launch.timeout_min" in outcome.message


@pytest.mark.parametrize("options", ["{array: 0-9}", "{job-name: mine}", "{_x: 1}"])
def test_options_that_are_not_the_users_are_refused(call, options):
    status, _, err = seeds(call, 2, f"launch.sbatch={options}")
    assert status == 2 and err.startswith("error: launch.sbatch.") and err.count("\n") == 1


def test_a_machine_without_slurm_is_named(call, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert "SLURM" in call.refused("-m", "launch=slurm", "pool=max,avg", *call.quick).upper()


def test_a_job_that_fails_is_one_failed_job_and_the_same_command_ends_there(call, tmp_path):
    sweep = ["-m", "launch=slurm", "launch.cluster=debug", "pool=max"]
    status, out, err = call("train", *sweep, "fit.lr=0.01,1e30", *call.quick)
    assert status == 1 and "2 jobs: 1 done, 1 failed" in out, err
    assert "lower fit.lr" in err and "Traceback" not in err
    (results,) = tmp_path.rglob("results.json")
    before = results.stat().st_mtime_ns
    assert call("train", *sweep, "fit.lr=0.01", *call.quick)[0] == 0
    assert results.stat().st_mtime_ns == before


@pytest.mark.slow
def test_a_job_whose_node_dies_has_failed_and_one_whose_time_is_up_saves_and_goes_on(tmp_path):
    with sweep("fit.epochs=40,9999") as process:
        timed = endless(tmp_path, 40)
        before = pid_of(timed)
        os.kill(before, signal.SIGUSR2)
        os.kill(pid_of(endless(tmp_path, 9999)), signal.SIGKILL)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1 and "2 jobs: " in out and "1 done" in out
    said = [line for line in err.splitlines() if not line.startswith("training: ")]
    assert len(said) == 1 and "ended early on its node" in said[0]
    assert pid_of(timed) != before
    assert json.loads((timed / "results.json").read_text())["epochs"] == 40


@pytest.mark.slow
@pytest.mark.skipif(not run_slurm.ask("sinfo", "-h"), reason="needs a SLURM cluster that answers sinfo")
def test_on_slurm_itself_a_job_queued_again_goes_on_and_a_cancelled_one_is_told(tmp_path):
    options = ["launch.cluster=slurm", "launch.mem_gb=1", "launch.jobs=1", "fit.epochs=400", "seed=0,1"]
    with sweep(*options) as process:
        folder = endless(tmp_path, 400)
        first, second = sorted(run_slurm.in_queue(), key=lambda number: int(number.rpartition("_")[2]))[-2:]
        for words in (("scancel", second), ("scontrol", "requeue", first)):
            subprocess.run(words, check=True)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1 and "1 done" in out and "1 failed" in out, err
    assert "seed1: ended early on its node" in err
    assert json.loads((folder / "results.json").read_text())["epochs"] == 400


def sweep(*options):
    quick = ["data.limit=64", "model.width=2", "fit.pictures=false", "probe=none"]
    command = [sys.executable, "-m", "cnnpool", "train", *LOCAL, *options, *quick]
    command += ["fit.checkpoint_every_minutes=0"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def endless(folder, epochs):
    """The folder of the job of so many epochs, which has saved once."""
    saved = f"outputs/digits/convnet/*epochs={epochs}*/seed0/checkpoints/last.ckpt"
    return wait_for(lambda: next(folder.glob(saved), None)).parents[1]


def pid_of(folder):
    return json.loads((folder / "status.json").read_text())["pid"]
