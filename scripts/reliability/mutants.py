"""Change what the program means, a change at a time, and count those that the tests notice.

usage: python scripts/reliability/mutants.py [ROOM ...]

Each change of mutants.yaml, or of those in the rooms named, replaces a piece of text in a clone of the last
commit. A fork of this process runs the tests of its room, then those of wiring, that run the piece, or all of
them where none does, the quickest first, up to the first failure: those of `make test`, and where none of
these fails those of `make test-rest`. Tests that fail with nothing changed are left out, and named.
Outcomes are kept in build/mutants.json as they come: a change is not tried again while its file and that of
the test that noticed it stay the same, and where they do not, that test is asked first. Prints one JSON
object: how many changes, those noticed and those noticed by `make test`; the changes that only tests of
`make test-rest` see, that none sees, and whose text is gone.
"""

import hashlib
import importlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build" / "mutants.json"
PRELOADED = ["hydra", "hypothesis", "lightning", "matplotlib.figure", "numba", "scipy.stats", "torchvision"]
TRACED_S = 7_200
LONG_AGO_S = 1_000_000_000
FLAGS = ["-q", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
FLAGS += ["-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:anyio"]
MARKS = {"quick": "not rest", "rest": "rest"}
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

    @cached_property
    def lines(self) -> range:
        """Numbers, from 1, of the lines that it takes; none unless its text stands in the file once."""
        path = ROOT / self.file
        text = path.read_text("utf-8") if path.exists() else ""
        if text.count(self.old) != 1:
            return range(0)
        first = text[: text.index(self.old)].count("\n") + 1
        return range(first, first + self.old.rstrip("\n").count("\n") + 1)


def mutants() -> list[Mutant]:
    listed = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
    return [Mutant(file, **one) for file, own in listed.items() for one in own]


def main(rooms: list[str]) -> None:
    listed = [one for one in mutants() if not rooms or one.room in rooms]
    gone = [f"{one.file}: {one.means}" for one in listed if not one.lines]
    every = [one for one in mutants() if one.lines]
    drawn = sorted((one for one in listed if one.lines), key=lambda one: (*rooms, one.room).index(one.room))
    os.nice(10)
    # So that the clone goes with it, and the tests that run.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "clone")
        subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
        commit, *files = git(clone, "rev-parse", "HEAD") + git(clone, "ls-files", "*.py")
        if kept.get("commit") != commit:
            kept = carried(clone, kept, every) | {"commit": commit}
        for file in files:
            # Python knows by the time whether its bytecode is that of a file.
            os.utime(clone / file, (LONG_AGO_S, LONG_AGO_S))
        # Compiled kernels: beside the sources those of a change would take the place of all others.
        os.environ["NUMBA_CACHE_DIR"] = str(Path(folder, "kernels"))
        for kind, end in (("quick", None), ("rest", "slowly or not")):
            suites = Suites(clone, kind, kept, every)
            for one in [one for one in drawn if kept["ends"].get(one.key) == end]:
                found = noticed(suites, one)
                kept["ends"][one.key] = found or ("slowly or not" if kind == "quick" else "missed")
                sys.stderr.write(f"{kept['ends'][one.key]}: {one.file}: {one.means}\n")
                KEPT.parent.mkdir(exist_ok=True)
                part = KEPT.with_suffix(".part")
                part.write_text(json.dumps(kept, indent=1))
                part.replace(KEPT)
    print(json.dumps(summary(drawn, kept, gone)))


def summary(drawn: Sequence[Mutant], kept: Mapping[str, Any], gone: Sequence[str]) -> dict[str, Any]:
    """Counts, in all and the changes that were missed."""
    ends = {one: kept["ends"][one.key].partition(":")[0] for one in drawn}
    slowly, missed = (
        [f"{one.file}: {one.means}" for one, end in ends.items() if end == kind]
        for kind in ("rest", "missed")
    )
    noticed = len(drawn) - len(missed)
    found = {"changes": len(drawn), "noticed": noticed, "noticed quickly": noticed - len(slowly)}
    unfit = sorted({test for ran in kept["ran"].values() for test in ran["unfit"]})
    return {**found, "slowly": slowly, "missed": missed, "gone": gone, "tests that fail without": unfit}


def git(clone: Path, *words: str) -> list[str]:
    return subprocess.run(
        ["git", "-C", clone, *words], check=True, capture_output=True, text=True
    ).stdout.split()


def carried(clone: Path, kept: Mapping[str, Any], every: Sequence[Mutant]) -> dict[str, Any]:
    """The outcomes at another commit that hold at this one, and the tests that noticed changes there."""
    ends, same = kept.get("ends", {}), {}
    with suppress(KeyError, subprocess.CalledProcessError):
        changed = set(git(clone, "diff", "--name-only", kept["commit"], "HEAD"))
        for one in every:
            end = ends.get(one.key, "")
            # A test that noticed a change still does where neither's file is another.
            if "::" in end and not changed & {one.file, end.partition(": ")[2].partition("::")[0]}:
                same[one.key] = end
    return {"before": kept.get("before", {}) | ends, "ends": same, "ran": {}}


def _test(end: str | None, kind: str) -> str:
    found, _, test = (end or "").partition(": ")
    return test if found == kind else ""


class Suites:
    """Tests of a kind with nothing changed, run once a commit: their seconds, and the lines they reach."""

    def __init__(self, clone: Path, kind: str, kept: dict[str, Any], every: Sequence[Mutant]) -> None:
        self.clone, self.kind, self.ran = clone, kind, kept["ran"]
        # Those of other rooms too: what is kept here serves them later.
        self.watched = [one for one in every if "::" not in kept["ends"].get(one.key, "")]
        self.known = {one: test for one in self.watched if (test := _test(kept["before"].get(one.key), kind))}

    def __call__(self, name: str, tests: Iterable[str]) -> dict[str, Any]:
        name = f"{self.kind} {name}"
        if name not in self.ran:
            self.ran[name] = run(self.clone, self.kind, sorted(tests), self.watched)[1]
        return self.ran[name]


def noticed(suites: Suites, one: Mutant) -> str:
    """``KIND: TEST``, the test that notices the change, or nothing.

    First that which noticed it at another commit, then of its room and of wiring those that run the piece,
    the quickest first; all where none of either does.
    """
    if test := suites.known.get(one):
        same_room = {own for other, own in suites.known.items() if other.room == one.room}
        ran = suites(f"known of {one.room}", same_room)
        if test in ran["took"] and (found := tried(suites, one, [test], ran)):
            return found
    reached = False
    for room in dict.fromkeys((one.room, "wiring")):
        ran = suites(room, [f"tests/{room}"])
        tests = order(one, ran)
        reached |= bool(tests)
        if found := tried(suites, one, tests, ran):
            return found
    for room in () if reached else dict.fromkeys((one.room, "wiring")):
        ran = suites(room, [f"tests/{room}"])
        if found := tried(suites, one, sorted(ran["took"], key=ran["took"].get), ran):
            return found
    return ""


def order(mutant: Mutant, ran: Mapping[str, Any]) -> list[str]:
    """The tests of a suite that run the piece, the quickest first."""
    reach = {test for line in mutant.lines for test in ran["reach"].get(f"{mutant.file}:{line}", [])}
    # Of what a fixture ran any test of its file may be the judge.
    own = [test for test in ran["took"] if reach & {test, test.partition("::")[0]}]
    return sorted(own, key=ran["took"].get)


def tried(suites: Suites, mutant: Mutant, tests: list[str], ran: Mapping[str, Any]) -> str:
    """``KIND: TEST``, the first of ``tests`` that notices the change, or nothing."""
    if not tests:
        return ""
    path = suites.clone / mutant.file
    text = path.read_text("utf-8")
    path.write_text(text.replace(mutant.old, mutant.new), "utf-8")
    try:
        # One that takes far longer than all together do is without end.
        limit_s = 60 + 5 * sum(ran["took"].get(test, 0) for test in tests)
        return run(suites.clone, suites.kind, tests, limit_s=int(limit_s))[0]
    finally:
        path.write_text(text, "utf-8")
        os.utime(path, (LONG_AGO_S, LONG_AGO_S))


def run(
    clone: Path, kind: str, tests: list[str], watched: Sequence[Mutant] = (), limit_s: int = TRACED_S
) -> tuple[str, dict[str, Any]]:
    """The first of ``tests`` to fail, in a process group of its own; who ran lines of ``watched``."""
    # Imported for all forks, once something is run; the package itself is not.
    for module in PRELOADED:
        importlib.import_module(module)
    told, tell = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if not child:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.dup2(2, 1)
        os.chdir(clone)
        sys.path.insert(0, str(clone))
        os.environ["PYTHONPATH"] = str(clone)
        if not watched:
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
            sys.dont_write_bytecode = True
        signal.alarm(limit_s)
        plugin = Ran(clone, tests, watched)
        # A test that is gone would end the others.
        files = dict.fromkeys(
            file for test in tests if (file := test.partition("::")[0]) and Path(file).exists()
        )
        status = pytest.main([*FLAGS, "-m", MARKS[kind], *([] if watched else ["-x"]), *files], [plugin])
        # None of the tests that are asked for may be of the kind.
        failed = plugin.failed or (f"pytest ended with {int(status)}" if status not in (0, 5) else "")
        fit = {test: took for test, took in plugin.took.items() if test not in plugin.unfit}
        reach = {line: sorted(ran) for line, ran in plugin.ran.items()}
        tell.send(
            (failed and f"{kind}: {failed}", {"reach": reach, "took": fit, "unfit": sorted(plugin.unfit)})
        )
        os._exit(0)
    tell.close()
    found: tuple[str, dict[str, Any]] = (f"{kind}: without end", {"reach": {}, "took": {}, "unfit": []})
    try:
        # A process that the tests left would hold the pipe open.
        with suppress(EOFError):
            found = told.recv() if told.poll(limit_s + 10) else found
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return found


class Ran:
    """Runs ``tests`` in their order; notes who ran each line of ``watched``, and which failed first."""

    def __init__(self, clone: Path, tests: list[str], watched: Sequence[Mutant]) -> None:
        self.watched: dict[str, tuple[str, set[int]]] = {}
        for one in watched:
            self.watched.setdefault(str(clone / one.file), (one.file, set()))[1].update(one.lines)
        self.places = {test: place for place, test in enumerate(tests)}
        self.test, self.failed = "", ""
        self.ran: dict[str, set[str]] = defaultdict(set)
        self.took: dict[str, float] = defaultdict(float)
        self.unfit: set[str] = set()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if any("::" in test for test in self.places):
            items[:] = [one for one in items if one.nodeid in self.places]
        items.sort(key=lambda one: self.places.get(one.nodeid, len(self.places)))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.took[report.nodeid] += report.duration
        if report.failed:
            self.unfit.add(report.nodeid)
            self.failed = self.failed or report.nodeid

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
