import os
import signal
import subprocess
import sys
import time
from itertools import pairwise

import pytest

from cnnpool.launch import worker as worker_module
from cnnpool.launch.worker import Workers
from cnnpool.system.signals import Stopped

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="jobs are forked on Linux alone")


def ended(child, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if child.poll() is not None:
            return child.returncode
        time.sleep(0.01)
    pytest.fail("the child never ended")


@pytest.fixture
def workers():
    """Forked processes that call what they are told to by name, and say so."""
    team = Workers(lambda name: print(f"said {name}") or ENDS[name]())
    yield team
    team.dismiss()


def fail():
    raise RuntimeError("it melted")


def stop():
    raise Stopped(signal.SIGTERM)


ENDS = {
    "well": lambda: 0,
    "mistaken": lambda: 2,
    "exit": lambda: sys.exit(3),
    "failed": fail,
    "stopped": stop,
    "killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "slow": lambda: time.sleep(60),
}


@pytest.mark.parametrize(
    ("end", "status", "words"),
    [
        ("well", 0, "said"),
        ("mistaken", 2, "said"),
        ("exit", 1, "SystemExit: 3"),
        ("failed", 1, "RuntimeError: it melted"),
        ("stopped", 128 + signal.SIGTERM, "said"),
        ("killed", -signal.SIGKILL, "said"),
    ],
)
def test_a_task_ends_with_its_own_status_and_what_it_said(workers, tmp_path, end, status, words):
    output = tmp_path / "output.log"
    output.write_text("before\n")
    assert ended(workers.start(end, output)) == status
    text = output.read_text()
    assert text.startswith("before\n") and words in text


def test_a_process_does_task_after_task_until_one_does_not_end_well(workers, tmp_path):
    pids = []
    for number, name in enumerate(("well", "well", "mistaken", "well", "killed", "well")):
        worker = workers.start(name, tmp_path / str(number))
        pids.append(worker.pid)
        ended(worker)
        assert (tmp_path / str(number)).read_text() == f"said {name}\n"
    assert [one == next_one for one, next_one in pairwise(pids)] == [True, True, False, True, False]


def test_a_process_that_is_killed_while_it_waits_is_replaced(workers, tmp_path):
    first = workers.start("well", tmp_path / "a")
    assert ended(first) == 0
    os.kill(first.pid, signal.SIGKILL)
    end = time.monotonic() + 10
    while first.is_idle() and time.monotonic() < end:
        time.sleep(0.01)
    second = workers.start("well", tmp_path / "b")
    assert second.pid != first.pid and ended(second) == 0


def test_a_process_that_is_killed_as_it_gets_a_task_ends_that_task_alone(workers, tmp_path, monkeypatch):
    first = workers.start("well", tmp_path / "a")
    assert ended(first) == 0
    monkeypatch.setattr(worker_module.Worker, "is_idle", lambda worker: True)
    os.kill(first.pid, signal.SIGKILL)
    time.sleep(0.2)
    assert workers.start("well", tmp_path / "b") is first
    monkeypatch.undo()
    assert ended(first) == -signal.SIGKILL
    assert ended(workers.start("well", tmp_path / "c")) == 0


def test_tasks_at_once_have_processes_of_their_own(workers, tmp_path):
    first, second = (workers.start("slow", tmp_path / name) for name in "ab")
    assert first.pid != second.pid
    assert first.poll() is second.poll() is None
    first.kill()
    assert (ended(first), second.poll()) == (-signal.SIGKILL, None)
    second.kill()
    ended(second)


def test_a_process_is_signalled_while_it_works_and_left_alone_afterwards(workers, tmp_path):
    worker = workers.start("well", tmp_path / "output.log")
    assert ended(worker) == 0
    worker.kill()
    worker = workers.start("slow", tmp_path / "output.log")
    worker.kill()
    assert ended(worker) == -signal.SIGKILL
    worker.send_signal(signal.SIGKILL)
    assert worker.poll() == -signal.SIGKILL


def test_whoever_has_nothing_to_do_ends_when_dismissed(workers, tmp_path):
    started = [workers.start("well", tmp_path / name) for name in "ab"]
    for one in started:
        assert ended(one) == 0
    workers.dismiss()
    for one in started:
        with pytest.raises(ProcessLookupError):
            os.kill(one.pid, 0)


WAKE = """
import torch
asked = []
for name in ("is_available", "device_count", "init", "_lazy_init"):
    setattr(torch.cuda, name, lambda name=name: asked.append(name))
from cnnpool.launch import build
build.wake()
print(asked)
"""


def test_no_gpu_is_looked_for_before_the_forks_which_could_not_use_it_then():
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", WAKE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_nothing_is_forked_where_torch_has_been_at_work(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", sys)
    assert not worker_module.can_fork()
    monkeypatch.delitem(sys.modules, "torch")
    assert worker_module.can_fork()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not worker_module.can_fork()
