"""Change what the program means, a change at a time, and count those that the tests notice.

usage: python scripts/reliability/mutants.py [ROOM ...]

Each change of mutants.yaml, or of those in the rooms named, replaces a piece of text in a clone of the last
commit. Each time a fork of this process runs the tests of its room and of wiring that run the piece, those of
`make test` first and the quickest of them first, or all of these where none runs it, up to the first failure;
tests that fail with nothing changed are left out, and named.
Outcomes are kept in build/mutants.json as they come: a change that has one there is not tried again. Prints
one JSON object with the changes that no test sees, and those that only tests of `make test-rest` see.
"""

import hashlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import lightning  # noqa: F401  # Imported for the forks; the package itself is not.
import numba  # noqa: F401
import pytest
import torchvision  # noqa: F401
import yaml

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "mutants.json"
PATIENCE_S, TRACED_S = 900, 36_000
FLAGS = ["-q", "-n0", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
# Tests of clusters take minutes, and fail where two run at once.
FLAGS += [f"--ignore=tests/launch/test_{one}.py" for one in ("run_ray", "slurm")]


@dataclass(frozen=True)
class Mutant:
    """A change of ``file``, and ``means``, a sentence about what a user would have of it."""

    file: str
    old: str
    new: str
    means: str

    @property
    def key(self) -> str:
        return hashlib.sha256(f"{self.file}\0{self.old}\0{self.new}".encode()).hexdigest()[:12]

    @property
    def room(self) -> str:
        """The folder of its tests: that of the file, and of files that stand alone that of the training."""
        room = self.file.split("/")[1]
        return room if (ROOT / "tests" / room).is_dir() else "fit"

    def place(self, root: Path = ROOT) -> int:
        """Its first line in the file, from 1; a ValueError unless its text stands there once."""
        text = (root / self.file).read_text("utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file}: {self.old!r} stands {text.count(self.old)} times, not once")
        return text[: text.index(self.old)].count("\n") + 1

    @property
    def lines(self) -> set[int]:
        """Numbers of the lines that it takes."""
        return set(range(first := self.place(), first + self.old.rstrip("\n").count("\n") + 1))


def mutants(rooms: Sequence[str] = ()) -> list[Mutant]:
    """Those of the list, or of ``rooms``; a ValueError for one whose text is not where it says."""
    listed = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
    every = [Mutant(file, **one) for file, own in listed.items() for one in own]
    lost = []
    for one in every:
        try:
            one.place()
        except (OSError, ValueError) as error:
            lost.append(str(error))
    if lost:
        raise ValueError("; ".join(lost))
    return [one for one in every if not rooms or one.room in rooms]


def main(rooms: list[str]) -> None:
    drawn = mutants(rooms)
    os.nice(10)
    # A file that changes back within a second would be taken for unchanged.
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {"ran": {}, "outcomes": {}}
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "clone")
        subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
        for room in dict.fromkeys(one.room for one in drawn):
            own = [one for one in drawn if one.room == room and one.key not in kept["outcomes"]]
            if own and room not in kept["ran"]:
                outcome, kept["ran"][room] = tests_of(clone, own, [f"tests/{room}", "tests/wiring"])
                if not kept["ran"][room]:
                    sys.exit(f"tests/{room}: {outcome}, with nothing changed")
                save(kept)
            for one in own:
                kept["outcomes"][one.key] = tried(clone, one, kept["ran"][room])
                sys.stderr.write(f"{kept['outcomes'][one.key]}: {one.file}: {one.means}\n")
                save(kept)
    ends = {one: kept["outcomes"][one.key] for one in drawn}
    rest, alive = (
        [f"{one.file}: {one.means}" for one, end in ends.items() if end.startswith(kind)]
        for kind in ("rest", ("alive", "late"))
    )
    noticed = len(drawn) - len(alive)
    found = {"changes": len(drawn), "noticed": noticed, "noticed quickly": noticed - len(rest)}
    unfit = sorted({test for ran in kept["ran"].values() for test in ran["unfit"]})
    print(json.dumps({**found, "slowly": rest, "missed": alive, "tests that fail without": unfit}))


def save(kept: dict[str, Any]) -> None:
    KEPT.parent.mkdir(exist_ok=True)
    part = KEPT.with_suffix(".part")
    part.write_text(json.dumps(kept, indent=1))
    part.replace(KEPT)


def tried(clone: Path, mutant: Mutant, ran: dict[str, Any]) -> str:
    """How the tests end with the change: ``quick: TEST`` or ``rest: TEST`` that notices it, late or alive."""
    path = clone / mutant.file
    text = path.read_text("utf-8")
    reach = {test for line in mutant.lines for test in ran["reach"].get(f"{mutant.file}:{line}", [])}
    # Of what a fixture ran any test of its file may be the judge.
    own = [test for test in ran["took"] if reach & {test, test.partition("::")[0]}]
    order = sorted(own or ran["took"], key=ran["took"].get)
    path.write_text(text.replace(mutant.old, mutant.new), "utf-8")
    try:
        return run(clone, order, None)[0]
    finally:
        path.write_text(text, "utf-8")


def tests_of(clone: Path, own: Sequence[Mutant], tests: list[str]) -> tuple[str, dict[str, Any]]:
    """The tests of ``tests`` that run each line of ``own``, whether each is of the rest, and its seconds."""
    watched: dict[str, set[int]] = defaultdict(set)
    for one in own:
        watched[one.file] |= one.lines
    return run(clone, tests, watched)


def run(clone: Path, tests: list[str], watched: dict[str, set[int]] | None) -> tuple[str, dict[str, Any]]:
    """How ``tests`` end in ``clone``, in a fork that has a process group of its own; what they ran."""
    told, tell = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if not child:
        os.setsid()
        os.dup2(2, 1)
        os.chdir(clone)
        sys.path.insert(0, str(clone))
        os.environ["PYTHONPATH"] = str(clone)
        signal.alarm(PATIENCE_S if watched is None else TRACED_S)
        plugin = Ran(clone, tests, watched)
        status = pytest.main([*FLAGS, *([] if watched else ["-x"]), *tests], [plugin])
        failed = plugin.failed or (f"rest: pytest ended with {int(status)}" if status else "alive")
        fit = {test: took for test, took in plugin.took.items() if test not in plugin.unfit}
        reach = {line: sorted(ran) for line, ran in plugin.ran.items()}
        tell.send((failed, {"reach": reach, "took": fit, "unfit": sorted(plugin.unfit)}))
        os._exit(0)
    tell.close()
    found: tuple[str, dict[str, Any]] = ("late", {})
    with suppress(EOFError):
        found = told.recv()
    os.waitpid(child, 0)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return found


class Ran:
    """Runs ``tests`` in their order; notes who ran each line of ``watched``, and which failed first."""

    def __init__(self, clone: Path, tests: list[str], watched: dict[str, set[int]] | None) -> None:
        self.watched = {str(clone / file): (file, lines) for file, lines in (watched or {}).items()}
        self.places = {test: place for place, test in enumerate(tests)}
        self.test, self.failed = "", ""
        self.ran: dict[str, set[str]] = defaultdict(set)
        self.took: dict[str, tuple[bool, float]] = {}
        self.unfit: set[str] = set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda one: self.places.get(one.nodeid, len(self.places)))
        self.took = {one.nodeid: (one.get_closest_marker("rest") is not None, 0.0) for one in items}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.failed:
            self.failed = f"quick: {report.nodeid}"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        rest, seconds = self.took[report.nodeid]
        self.took[report.nodeid] = rest, seconds + report.duration
        if report.failed:
            self.unfit.add(report.nodeid)
            self.failed = self.failed or f"{'rest' if rest else 'quick'}: {report.nodeid}"

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.test = nodeid.partition("::")[0]
        if self.watched:
            # Again at each test: an error that a signal raises within ends the tracing.
            sys.settrace(self.trace)
            threading.settrace(self.trace)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        self.test = item.nodeid

    def trace(self, frame: FrameType, event: str, _: object) -> Any:
        """Follows only functions that hold a line of the list: all others run at nearly full speed."""
        found = self.watched.get(frame.f_code.co_filename)
        if not found or not self.holds(frame.f_code, found[1]):
            return None
        if event == "line" and frame.f_lineno in found[1]:
            self.ran[f"{found[0]}:{frame.f_lineno}"].add(self.test)
        return self.trace

    def holds(self, code: CodeType, lines: set[int]) -> bool:
        last = max((line for _, _, line in code.co_lines() if line), default=code.co_firstlineno)
        return any(code.co_firstlineno <= line <= last for line in lines)


if __name__ == "__main__":
    main(sys.argv[1:])
