"""A fault, and the attempt to do what leads to it."""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import forkserver
from pathlib import Path

from cnnpool import cli
from cnnpool.system import progress

HEAVY = ("fit", "inspection.command", "launch.compose", "training", "report.comparison")
for heavy in HEAVY:
    # Here once, not in every fork.
    import_module(f"cnnpool.{heavy}")

QUICK = (
    "data.limit=64", "model.width=2", "fit.epochs=1", "fit.pictures=false", "fit.progress=false",
    "probe=none",
)  # fmt: skip
PATIENCE_S = 300
# A slow machine would say on stderr how far it has come.
progress.SILENT_S = 1e6
MINE = "train --config-dir mine pool=mine"
GOES_ON = "rerun the same command to resume"
TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong, and the answer that it must get."""

    what: str
    command: str
    """After ``cnnpool``; what makes training quick is added."""
    says: tuple[str, ...]
    """Contained in the line on stderr: the key or file, the value, the remedy."""
    status: int = 2
    before: Callable[[], object] = lambda: None
    """Makes the fault, in the process and the folder of the command."""
    keeps: tuple[str, ...] = ()
    """Patterns of files that must be there afterwards."""
    lines: int = 1
    """On stderr; a sweep has one per failed job."""
    out: tuple[str, ...] = ()
    """Contained in stdout."""

    @property
    def arguments(self) -> list[str]:
        first, *rest = self.command.split()
        return [first, *(QUICK if first == "train" else ()), *rest]


def attempt(fault: Fault, folder: Path) -> tuple[str, str, list[str]]:
    """(line on stderr, exit status, what is wrong with the answer) of ``fault``, tried in ``folder``."""
    status, out, err = command(fault.arguments, folder, fault.before)
    wrong = [] if status == fault.status else [f"status {status}, not {fault.status}"]
    if err.count("\n") != fault.lines:
        wrong.append(f"{err.count(chr(10))} lines on stderr, not {fault.lines}")
    wrong += [f"stderr lacks {word!r}" for word in fault.says if word not in err]
    wrong += [f"stdout lacks {word!r}" for word in fault.out if word not in out]
    wrong += [f"{name} is lost" for name in fault.keeps if not list(folder.glob(name))]
    wrong += ["a traceback"] if TRACEBACK in out + err else []
    if fault.status == 2 and not fault.keeps and list(folder.rglob("*.ckpt")):
        wrong.append("something was trained")
    return err.replace(f"{folder}/", "").strip(), str(status), wrong


def command(arguments: list[str], folder: Path, before: Callable[[], object] = lambda: None) -> tuple:
    """(exit status, stdout, stderr) of ``cnnpool ARGUMENTS`` in a fork that stands in ``folder``.

    One that hangs is killed, and found to have the wrong status.
    """
    with tempfile.TemporaryDirectory() as said:
        out, err = Path(said) / "out", Path(said) / "err"
        process, end = begun(arguments, folder, out, err, before), time.monotonic() + PATIENCE_S
        while not (found := os.waitpid(process, os.WNOHANG))[0]:
            if time.monotonic() > end:
                os.kill(process, signal.SIGKILL)
            time.sleep(0.005)
        status = os.waitstatus_to_exitcode(found[1])
        return status, out.read_text(errors="replace"), err.read_text(errors="replace")


def begun(
    arguments: Sequence[str], folder: Path, out: Path, err: Path, before: Callable[[], object] = lambda: None
) -> int:
    """The pid of a fork that does ``before`` in ``folder`` and ``cnnpool ARGUMENTS``, said in two files.

    A fork, since imports take longer than most commands.
    """
    out.touch()
    err.touch()
    if process := os.fork():
        return process
    status = 99
    try:
        # A server of processes that the parent has started is no child of this fork, which needs its own.
        forkserver._forkserver.__init__()
        os.chdir(folder)
        before()
        sys.stdout, sys.stderr = out.open("a"), err.open("a")
        for stream, number in ((sys.stdout, 1), (sys.stderr, 2)):
            os.dup2(stream.fileno(), number)
        cli.main(list(arguments))
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException as error:
        sys.stderr.write(f"{TRACEBACK}: {error!r}\n")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
