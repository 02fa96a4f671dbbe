"""Delete single statements of the training's code, and count those that the tests notice.

usage: python scripts/reliability/deletions.py [PART/PARTS]

300 statements, drawn by a fixed seed from all functions of CODE, are deleted one at a time from a clone. Each
time a fork of this process, which has imported torch, runs the tests of the room and of the wiring up to the
first failure, those first that run the statement. Prints one JSON object with the statements whose loss no
test sees.
"""

import ast
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path

import lightning  # noqa: F401  # Imported for the forks; the package itself is not.
import pytest

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
STATEMENTS, PATIENCE_S = 300, 1800
# Tests of clusters take minutes, and fail where two run at once.
QUIET = ["-x", "-q", "-n0", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
QUIET += [f"--ignore=tests/launch/test_{one}.py" for one in ("run_ray", "slurm")]


def main(arguments: list[str]) -> int:
    part, parts = map(int, (arguments or ["0/1"])[0].split("/"))
    drawn = random.Random(0).sample(statements(), STATEMENTS)[part::parts]
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "clone")
        subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
        # With their times, by which Numba knows what it has compiled.
        shutil.copytree(ROOT / "cnnpool", clone / "cnnpool", dirs_exist_ok=True)
        # A file that changes back within a second would be taken for unchanged.
        os.environ |= {"PYTHONPATH": str(clone), "PYTHONDONTWRITEBYTECODE": "1"}
        sys.dont_write_bytecode = True
        if noticed(clone, {*CODE.values()}, keep=Path(folder, "ran")):
            sys.exit("a test fails with nothing deleted")
        ran = json.loads(Path(folder, "ran").read_text())
        missed = []
        for file, line, text in drawn:
            if not tried(clone, file, line, ran.get(f"{clone / file}:{line}", ())):
                missed.append(f"{file}:{line} {text}")
                sys.stderr.write(f"missed: {missed[-1]}\n")
    print(json.dumps({"deleted": len(drawn), "noticed": len(drawn) - len(missed), "missed": missed}))
    return 0


def statements() -> list[tuple[str, int, str]]:
    """File, line and text of each statement of a function, but for docstrings, imports and definitions."""
    found = []
    for path in sorted(path for pattern in CODE for path in (ROOT / "cnnpool").glob(pattern)):
        lines = path.read_text("utf-8").splitlines()
        defined = (
            node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.FunctionDef)
        )
        inner = {
            node
            for one in defined
            for node in ast.walk(one)
            if isinstance(node, ast.stmt) and node is not one
        }
        found += [
            (path.relative_to(ROOT).as_posix(), node.lineno, lines[node.lineno - 1].strip())
            for node in sorted(inner, key=lambda node: node.lineno)
            if not isinstance(node, ast.FunctionDef | ast.Import | ast.ImportFrom | ast.Pass)
            and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        ]
    return found


def tried(clone: Path, file: str, line: int, first: Collection[str]) -> bool:
    """Whether a test, ``first`` or another, notices that the statement at ``line`` of ``file`` is gone."""
    path = clone / file
    text = path.read_text("utf-8")
    node = next(one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.stmt) and one.lineno == line)
    lines = text.splitlines(keepends=True)
    lines[line - 1 : node.end_lineno] = [f"{' ' * node.col_offset}pass\n"]
    path.write_text("".join(lines), "utf-8")
    room = next(CODE[one] for one in CODE if (ROOT / file).match(f"cnnpool/{one}"))
    try:
        return noticed(clone, {room}, first)
    finally:
        path.write_text(text, "utf-8")


def noticed(clone: Path, rooms: set[str], first: Collection[str] = (), keep: Path | None = None) -> bool:
    """Whether a test of ``rooms`` or of the wiring fails in ``clone``, or does not end.

    Writes to ``keep`` which tests ran each line of CODE.
    """
    child = os.fork()
    if not child:
        os.setsid()
        os.dup2(2, 1)
        os.chdir(clone)
        sys.path.insert(0, str(clone))
        signal.alarm(PATIENCE_S)
        plugin = Tests(first, {str(one) for pattern in CODE for one in (clone / "cnnpool").glob(pattern)})
        if keep:
            threading.settrace(plugin.trace)
            sys.settrace(plugin.trace)
        failed = pytest.main([*QUIET, *(f"tests/{room}" for room in ("wiring", *sorted(rooms)))], [plugin])
        if keep:
            keep.write_text(json.dumps({line: sorted(tests) for line, tests in plugin.ran.items()}))
        os._exit(failed)
    _, status = os.waitpid(child, 0)
    return status != 0


class Tests:
    """Puts the tests ``first`` before the others, and notes which test runs which line of ``files``."""

    def __init__(self, first: Collection[str], files: set[str]) -> None:
        self.first, self.files = first, files
        self.ran: defaultdict[str, set[str]] = defaultdict(set)
        self.test = ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda one: one.nodeid not in self.first)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.test = nodeid

    def trace(self, frame, event, _):
        if frame.f_code.co_filename not in self.files:
            return None
        if event == "line":
            self.ran[f"{frame.f_code.co_filename}:{frame.f_lineno}"].add(self.test)
        return self.trace


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
