"""Delete single statements of the training's code, and count those that the tests notice.

usage: python scripts/reliability/deletions.py [--missed]

300 statements, drawn by a fixed seed from all functions of CODE, are deleted one at a time from a clone; with
--missed, only those that docs/reliability.json says were missed. Each time a fork of this process runs the
tests of room and wiring that run the statement, the quickest first, or all of them where none does, up to the
first failure. Prints one JSON object with the statements whose loss no test sees.
"""

import ast
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path

import lightning  # noqa: F401  # Imported for the forks; the package itself is not.
import numba  # noqa: F401
import pytest
import torchvision  # noqa: F401

ROOT = Path(__file__).resolve().parents[2]
CODE = {
    "training.py": "fit",
    "fit/*.py": "fit",
    "data/*.py": "data",
    "launch/run_job.py": "launch",
    "lightning/*.py": "lightning",
    "choose/drive.py": "choose",
}
"""Files of the package -> the folder of their tests."""
STATEMENTS, PROCESSES, PATIENCE_S = 300, 2, 600
# Tests of clusters take minutes, and fail where two run at once.
QUIET = ["-x", "-q", "-n0", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
QUIET += [f"--ignore=tests/launch/test_{one}.py" for one in ("run_ray", "slurm")]


def main(arguments: list[str]) -> None:
    drawn = random.Random(2).sample(statements(), STATEMENTS)
    if arguments:
        [earlier] = json.loads((ROOT / "docs/reliability.json").read_text())["deletions"].values()
        drawn = [one for one in statements() if "{}:{} {}".format(*one) in earlier["result"]["missed"]]
    with tempfile.TemporaryDirectory() as folder:
        clones = [Path(folder, str(number)) for number in range(PROCESSES)]
        for clone in clones:
            subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
            # With their times, by which Numba knows what it has compiled.
            shutil.copytree(ROOT / "cnnpool", clone / "cnnpool", dirs_exist_ok=True)
        # A file that changes back within a second would be taken for unchanged.
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        sys.dont_write_bytecode = True
        if noticed(clones[0], ["tests/wiring", *map("tests/{}".format, CODE.values())], Path(folder, "ran")):
            sys.exit("a test fails with nothing deleted")
        ran = json.loads(Path(folder, "ran").read_text())
        shares = [(clone, drawn[number::PROCESSES], ran) for number, clone in enumerate(clones)]
        with ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("fork")) as pool:
            missed = sorted(chain(*pool.map(missed_of, *zip(*shares, strict=True))))
    print(json.dumps({"deleted": STATEMENTS, "noticed": STATEMENTS - len(missed), "missed": missed}))


def missed_of(clone: Path, drawn: list[tuple[str, int, str]], ran: dict[str, list[str]]) -> list[str]:
    """Those of ``drawn`` that the tests do not notice; ``ran`` has the tests that run a line."""
    missed = []
    for file, line, text in drawn:
        if not tried(clone, file, line, ran.get(f"{file}:{line}")):
            missed.append(f"{file}:{line} {text}")
            sys.stderr.write(f"missed: {missed[-1]}\n")
    return missed


def statements() -> list[tuple[str, int, str]]:
    """File, line and text of statements in functions, but for docstrings, imports, definitions, asserts."""
    found = []
    for path in sorted(path for pattern in CODE for path in (ROOT / "cnnpool").glob(pattern)):
        text = path.read_text("utf-8")
        functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef))
        inner = {one for function in functions for one in ast.walk(function) if one is not function}
        found += [
            (path.relative_to(ROOT).as_posix(), node.lineno, text.splitlines()[node.lineno - 1].strip())
            for node in sorted(filter(_deletable, inner), key=lambda node: node.lineno)
        ]
    return found


def _deletable(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Constant)
    kept = ast.FunctionDef | ast.Import | ast.ImportFrom | ast.Pass | ast.Assert
    return isinstance(node, ast.stmt) and not isinstance(node, kept)


def tried(clone: Path, file: str, line: int, tests: list[str] | None) -> bool:
    """Whether one of ``tests``, or of all of its room, notices that the statement at ``line`` is gone."""
    path = clone / file
    text = path.read_text("utf-8")
    node = next(one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.stmt) and one.lineno == line)
    lines = text.splitlines(keepends=True)
    lines[line - 1 : node.end_lineno] = [f"{' ' * node.col_offset}pass\n"]
    path.write_text("".join(lines), "utf-8")
    room = next(CODE[one] for one in CODE if (ROOT / file).match(f"cnnpool/{one}"))
    try:
        return noticed(clone, tests or ["tests/wiring", f"tests/{room}"])
    finally:
        path.write_text(text, "utf-8")


def noticed(clone: Path, tests: list[str], keep: Path | None = None) -> bool:
    """Whether ``tests`` fail in ``clone`` or do not end, kill what is left; ``keep`` gets who ran a line."""
    child = os.fork()
    if not child:
        os.setsid()
        os.dup2(2, 1)
        os.chdir(clone)
        sys.path.insert(0, str(clone))
        os.environ["PYTHONPATH"] = str(clone)
        signal.alarm(3 * PATIENCE_S if keep else PATIENCE_S)
        plugin = Ran(clone, tests, tracing=keep is not None)
        threading.settrace(plugin.trace if keep else None)
        failed = pytest.main([*QUIET, *tests], [plugin])
        if keep:
            quick = partial(sorted, key=lambda one: plugin.took.get(one, PATIENCE_S))
            keep.write_text(json.dumps({line: quick(tests) for line, tests in plugin.ran.items()}))
        os._exit(failed)
    _, status = os.waitpid(child, 0)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    return status != 0


class Ran:
    """Runs ``tests`` in their order; which, or what folder of them, ran each line, and their seconds."""

    def __init__(self, clone: Path, tests: list[str], tracing: bool) -> None:
        paths = [path for pattern in CODE for path in (clone / "cnnpool").glob(pattern)]
        self.files = {str(path): path.relative_to(clone).as_posix() for path in paths}
        self.places = {test: place for place, test in enumerate(tests)}
        self.tracing, self.test, self.ran, self.took = tracing, "", defaultdict(set), defaultdict(float)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda one: self.places.get(one.nodeid, len(self.places)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.took[report.nodeid] += report.duration

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        # Again at each test: an error that a signal raises within ends the tracing.
        sys.settrace(self.trace if self.tracing else None)
        # Another test may share what is set up here.
        self.test = nodeid.rpartition("/")[0]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        self.test = item.nodeid

    def trace(self, frame, event, _):
        file = self.files.get(frame.f_code.co_filename)
        if file and event == "line":
            self.ran[f"{file}:{frame.f_lineno}"].add(self.test)
        return self.trace if file else None


if __name__ == "__main__":
    main(sys.argv[1:])
