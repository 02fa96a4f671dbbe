"""Sweeps on Ray: what the launcher does by a stand-in for Ray, and on Ray itself where it is installed."""

import json
import os
import signal
import socket
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from cnnpool.launch import run_ray
from cnnpool.launch.job import Outcome
from cnnpool.run_folder import status

RAY = ["-m", "launch=ray", "pool=max,avg,sum"]


class RayError(Exception):
    pass


class WorkerCrashedError(RayError):
    pass


class TaskCancelledError(RayError):
    pass


class NodeDiedError(RayError):
    pass


class Ray:
    """Runs the tasks when they are waited for; ``ends`` says how, by the operator."""

    exceptions = SimpleNamespace(
        RayError=RayError, TaskCancelledError=TaskCancelledError, NodeDiedError=NodeDiedError
    )

    def __init__(self, ends):
        self.ends, self.asked, self.cancelled, self.down = ends, {}, [], False

    def remote(self, **resources):
        self.resources = resources
        return lambda work: self

    def options(self, name):
        return SimpleNamespace(remote=lambda job, folder: self.asked.setdefault(name, job) and name)

    def wait(self, references, timeout):
        return references[:1], references[1:]

    def get(self, reference):
        return self.ends[self.asked[reference].settings["pool"]["name"]](self.asked[reference])

    def cancel(self, reference, force):
        self.cancelled.append((reference, force))

    def shutdown(self):
        self.down = True


def done(job):
    return Outcome(job.name, "done", "", 0, job.folder / "train.log")


def crashed(job):
    job.folder.mkdir(parents=True)
    status.write(job.folder, "running")
    raise WorkerCrashedError


def cancelled(job):
    raise TaskCancelledError


def saved(job):
    job.folder.mkdir(parents=True)
    status.write(job.folder, "stopped", "stopped by SIGINT at step 3", 130)
    raise TaskCancelledError


def stopped(job):
    os.kill(os.getpid(), signal.SIGTERM)
    return done(job)


@pytest.fixture
def ray(monkeypatch):
    """A function that puts a stand-in in the place of Ray."""

    def stand_in(**ends):
        fake = Ray(ends)
        monkeypatch.setattr(run_ray, "_connected", lambda *asked: fake)
        return fake

    return stand_in


def test_a_worker_that_dies_is_one_failed_job_and_the_others_are_told(call, ray, tmp_path):
    fake = ray(max=crashed, avg=done, sum=done)
    status, out, err = call("train", *RAY, "launch.threads=3", "launch.gpus=0.5", *call.quick)
    assert status == 1
    assert "3 jobs: 1 failed, 2 done" in out
    assert err.startswith("error: digits/convnet/max") and "WorkerCrashedError" in err
    assert err.count("\n") == 1
    (state,) = (json.loads(path.read_text()) for path in tmp_path.rglob("status.json"))
    assert state["state"] == "failed"
    assert fake.resources == {"num_cpus": 3, "num_gpus": 0.5, "max_calls": 1, "max_retries": 0}
    assert fake.down


def test_a_signal_cancels_what_runs_and_waits_for_it(call, ray):
    fake = ray(max=stopped, avg=cancelled, sum=saved)
    status, out, err = call("train", *RAY, *call.quick)
    assert status == 128 + signal.SIGTERM
    assert [(reference.split("/")[2].split("+")[0], force) for reference, force in fake.cancelled] == [
        ("avg", False),
        ("sum", False),
    ]
    assert "3 jobs: 1 done, 1 stopped, 1 not run" in out and "by SIGINT at step 3" in err and fake.down


def test_a_job_whose_machine_is_lost_is_tried_once_more(call, ray):
    tried = []

    def unlucky(job, times):
        tried.append(job.settings["pool"]["name"])
        if tried.count(tried[-1]) <= times:
            raise NodeDiedError
        return done(job)

    ray(max=lambda job: unlucky(job, 1), avg=lambda job: unlucky(job, 2), sum=done)
    status, out, err = call("train", *RAY, *call.quick)
    assert (
        status == 1 and "3 jobs: " in out and "2 done" in out and sorted(tried) == 2 * ["avg"] + 2 * ["max"]
    )
    assert "/avg" in err and "its machine left the cluster" in err and err.count("\n") == 1


def test_processors_that_no_machine_has_are_named(capfd):
    machines = [{"Alive": True, "Resources": {"CPU": 2.0}}, {"Alive": False, "Resources": {"CPU": 9.0}}]
    ray = SimpleNamespace(nodes=lambda: machines)
    run_ray._find_room(ray, False, 2, 0)
    assert not capfd.readouterr().err
    run_ray._find_room(ray, False, 3, 0)
    assert capfd.readouterr().err.startswith(
        "launch.threads=3, launch.gpus=0: jobs wait, no machine has more"
    )
    with pytest.raises(ValueError, match=r"launch.gpus=1: this machine has 2 processors and 0 devices"):
        run_ray._find_room(ray, True, 1, 1)


def test_what_ray_cannot_do_is_refused(call, ray):
    ray()
    assert "leave fit.devices at 1" in call.refused(*RAY, "fit.devices=2", *call.quick)
    assert "launch.gpus must be a number from 0" in call.refused(*RAY, "launch.gpus=-1", *call.quick)


def test_an_address_where_nobody_listens_is_refused(call, monkeypatch):
    monkeypatch.setattr(run_ray, "find_spec", lambda name: True)
    monkeypatch.setitem(sys.modules, "ray", ModuleType("ray"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        err = call.refused(*RAY, f"launch.address={address}", *call.quick)
    assert err.startswith(f"error: launch.address={address}: no Ray cluster answers there")


@pytest.mark.slow
@pytest.mark.skipif(not find_spec("ray"), reason="needs pip install 'cnnpool[ray]'")
def test_jobs_are_done_by_ray_itself(call, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    status, out, err = call("train", "-m", "launch=ray", "pool=max,avg", "pool.stride=2,-1", *call.quick)
    assert status == 2, err
    assert "4 jobs: " in out and "2 done" in out and "2 failed" in out, err
    assert err.count("pool.stride must be a whole number") == 2
    assert len(list(tmp_path.rglob("results.json"))) == 2
    status, _, err = call("train", "-m", "launch=ray", "launch.threads=10000", *call.quick)
    assert status == 2 and "launch.threads=10000" in err and "this machine has" in err
