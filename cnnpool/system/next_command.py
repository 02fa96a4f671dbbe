"""The next command to type: printed at the end of a command, ready to copy into the same shell."""

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

BOARD = "http://localhost:6006/#downsampling"  # TensorBoard's tab, on the default port


def next_lines(*commands: Sequence[str]) -> str:
    """``next: cnnpool compare outputs/mnist``, and a line per further command, given as words."""
    lines = [shlex.join([*shlex.split(program(name)), *words]) for name, *words in commands]
    return "".join(f"{'' if place else 'next:':<6}{line}\n" for place, line in enumerate(lines))


def program(name: str) -> str:
    """The shell command for the program ``name`` of this Python: its name alone if PATH leads to it."""
    python = Path(sys.executable)
    beside, found = shutil.which(name, path=str(python.parent)), shutil.which(name)
    if found and (not beside or Path(found).samefile(beside)):
        return name
    if beside:
        return shlex.quote(from_here(Path(beside)))
    return f"{shlex.quote(from_here(python))} -m {name}"


def from_here(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
