"""Make small mistakes in our own operators, one at a time, and see that their tests find each.

usage: python scripts/reliability/mutants.py [PART/PARTS]

Each mistake of edits.py (of PARTS the one numbered PART, from 0) is made in a copy of the package, where the
operator's own tests are run, with compiled kernels and without. Prints one JSON object; status 1 if a mistake
went unnoticed, or if the tests fail without one.
"""

import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numba  # noqa: F401  (what takes long to import, once here and not in every process)
import pytest
import scipy.stats  # noqa: F401
import torch

from scripts.reliability.edits import EDITS, Edit

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str]) -> int:
    torch.set_num_threads(1)
    part, parts = map(int, arguments[0].split("/")) if arguments else (0, 1)
    edits = EDITS[part * len(EDITS) // parts : (part + 1) * len(EDITS) // parts]
    # Always the same place, which is kept: kernels need not be compiled again for every mistake.
    copy = copied(Path(tempfile.gettempdir(), "cnnpool-mutants"))
    tests = sorted({name for edit in edits for name in edit.tests.split()})
    failing = [name for name in tests if fails(copy, name)]
    killed, survivors = Counter(), []
    for edit in edits:
        begun = time.monotonic()
        if mutated(copy, edit):
            killed[edit.file] += 1
        else:
            survivors.append(f"{edit.file}: {edit.old} -> {edit.new}")
            print(survivors[-1], file=sys.stderr)
        print(f"{edit.file}  {time.monotonic() - begun:.0f} s", file=sys.stderr)
    found = {
        "mutants": len(edits),
        "killed": killed.total(),
        "survivors": survivors,
        "tests that fail without a mistake": failing,
    }
    print(json.dumps(found))
    return int(bool(survivors or failing))


def copied(folder: Path) -> Path:
    """A copy of what the tests need."""
    for name in ("cnnpool", "conf", "tests"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored, dirs_exist_ok=True)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def mutated(copy: Path, edit: Edit) -> bool:
    """Whether the tests find the mistake."""
    path = copy / "cnnpool" / "pool" / edit.file
    text = path.read_text()
    if text.count(edit.old) != 1:
        # The code has changed: edits.py must be mended.
        return False
    path.write_text(text.replace(edit.old, edit.new))
    try:
        return any(fails(copy, name) for name in edit.tests.split())
    finally:
        path.write_text(text)


def fails(copy: Path, name: str) -> bool:
    """Whether the tests called ``name`` fail, by compiled kernels or by torch's operators alone."""
    return any(run(copy, name, kernels) for kernels in "01")


def run(copy: Path, name: str, kernels: str) -> int:
    """The exit status of the tests called ``name``, 0 if all pass, in a fork that imports the copy."""
    process = os.fork()
    if not process:
        try:
            os.chdir(copy)
            sys.path.insert(0, str(copy))
            sys.dont_write_bytecode = True
            os.environ["CNNPOOL_KERNELS"] = kernels
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 1)
            os.dup2(silence, 2)
            os._exit(pytest.main(["-x", "-q", "-p", "no:cacheprovider", f"tests/pool/{name}.py"]))
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
