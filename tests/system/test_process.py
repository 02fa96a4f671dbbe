import subprocess
import sys
from importlib.util import find_spec

import pytest

import cnnpool
from cnnpool.system import process
from cnnpool.system.progress import Progress


@pytest.mark.parametrize(("status", "code"), [(None, 0), (3, 3), ("no such thing", 1)])
def test_leaving_runs_what_was_registered_and_flushes_what_was_said(status, code):
    script = (
        "import atexit, sys\nfrom cnnpool.system.process import leave\n"
        "atexit.register(lambda: sys.stdout.write('bye '))\nsys.stdout.write('hello ')\n"
        f"leave({status!r})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (code, "hello bye ")
    assert done.stderr == ("no such thing\n" if code == 1 else "")


def test_nothing_is_collected_while_modules_are_imported():
    script = (
        "import gc, sys\nfrom cnnpool.system.process import importing\n"
        "before = gc.get_freeze_count()\nwith importing():\n    pass\n"
        "assert gc.isenabled() and gc.get_freeze_count() == before, 'nothing was imported'\n"
        "with importing():\n    assert not gc.isenabled()\n    import wave\n"
        "frozen = gc.get_freeze_count()\n"
        "assert gc.isenabled() and frozen > before + 1000\n"
        "gc.disable()\n"
        "try:\n    with importing():\n        raise ValueError\nexcept ValueError:\n    pass\n"
        "assert not gc.isenabled(), 'as it was before'"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not find_spec("triton"), reason="needs triton, which reports what is left at its end")
def test_extensions_are_not_reported_as_leaked_when_the_interpreter_ends():
    script = "from cnnpool.system.process import importing\nwith importing():\n    import triton"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_rank_is_a_number(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "2")
    assert process.rank() == 2
    monkeypatch.setenv("RANK", "")
    for ask in (process.rank, lambda: Progress("composing")):
        with pytest.raises(ValueError, match=r"^the environment variable RANK= is not .*: unset RANK$"):
            ask()


def test_threads_sleep_soon_unless_the_environment_says_otherwise(monkeypatch):
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        # Set first, so that what is set below is undone.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    process.share_cores()
    assert process.os.environ["GOMP_SPINCOUNT"] == process.SPINS
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    process.share_cores()
    assert process.os.environ["GOMP_SPINCOUNT"] == "7"
    monkeypatch.delenv("GOMP_SPINCOUNT")
    with pytest.warns(UserWarning, match=r"torch is imported already: .*export GOMP_SPINCOUNT=1000"):
        assert not cnnpool.tune() and "GOMP_SPINCOUNT" not in process.os.environ
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    process.share_cores()
    assert "GOMP_SPINCOUNT" not in process.os.environ
