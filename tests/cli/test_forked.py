import os
import signal
import sys
import time

import pytest

from cnnpool.launch import forked
from cnnpool.launch.forked import Forked
from cnnpool.stopping import Stopped

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="jobs are forked on Linux alone")


def ended(child, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if child.poll() is not None:
            return child.returncode
        time.sleep(0.01)
    pytest.fail("the child never ended")


def say_and(end):
    def call():
        print("said")
        return end()

    return call


def fail():
    raise RuntimeError("it melted")


def stop():
    raise Stopped(signal.SIGTERM)


@pytest.mark.parametrize(
    ("end", "status", "words"),
    [
        (lambda: 0, 0, "said"),
        (lambda: 2, 2, "said"),
        (lambda: sys.exit(3), 1, "SystemExit: 3"),
        (fail, 1, "RuntimeError: it melted"),
        (stop, 128 + signal.SIGTERM, "said"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), -signal.SIGKILL, ""),
    ],
)
def test_a_child_ends_with_its_own_status_and_what_it_said(tmp_path, end, status, words):
    output = tmp_path / "output.log"
    output.write_text("before\n")
    child = Forked(say_and(end), output)
    assert ended(child) == status
    text = output.read_text()
    assert text.startswith("before\n") and words in text


def test_a_child_is_signalled_while_it_lives_and_left_alone_afterwards(tmp_path):
    child = Forked(lambda: time.sleep(60), tmp_path / "output.log")
    assert child.poll() is None
    assert os.getpgid(child.pid) in (os.getpgid(0), child.pid)
    child.kill()
    assert ended(child) == -signal.SIGKILL
    child.send_signal(signal.SIGKILL)
    child.kill()
    assert child.poll() == -signal.SIGKILL


def test_nothing_is_forked_where_torch_has_been_at_work(monkeypatch):
    assert "torch" in sys.modules and not forked.can_fork()
    monkeypatch.delitem(sys.modules, "torch")
    assert forked.can_fork()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not forked.can_fork()
