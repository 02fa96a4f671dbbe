"""Delete single statements of the training's code, and count those that the tests notice.

usage: python scripts/reliability/deletions.py [PART/PARTS]

300 statements, drawn by a fixed seed from all functions of CODE, are deleted one at a time from a clone. Each
time a fork of this process, which has imported torch, runs the tests of the room and of the wiring up to the
first failure. Prints one JSON object with the statements whose loss no test sees.
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
        if noticed(clone, *{*CODE.values()}):
            sys.exit("a test fails with nothing deleted")
        missed = []
        for file, line, text in drawn:
            if not tried(clone, file, line):
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


def tried(clone: Path, file: str, line: int) -> bool:
    """Whether a test notices that the statement at ``line`` of ``file`` is gone."""
    path = clone / file
    text = path.read_text("utf-8")
    node = next(one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.stmt) and one.lineno == line)
    lines = text.splitlines(keepends=True)
    lines[line - 1 : node.end_lineno] = [f"{' ' * node.col_offset}pass\n"]
    path.write_text("".join(lines), "utf-8")
    try:
        return noticed(clone, next(CODE[one] for one in CODE if (ROOT / file).match(f"cnnpool/{one}")))
    finally:
        path.write_text(text, "utf-8")


def noticed(clone: Path, *rooms: str) -> bool:
    """Whether a test of ``rooms`` or of the wiring fails in ``clone``, or does not end."""
    child = os.fork()
    if not child:
        os.setsid()
        os.dup2(2, 1)
        os.chdir(clone)
        sys.path.insert(0, str(clone))
        signal.alarm(PATIENCE_S)
        for marked in ("not rest", "rest"):
            if pytest.main([*QUIET, "-m", marked, *(f"tests/{room}" for room in (*rooms, "wiring"))]):
                os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return status != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
