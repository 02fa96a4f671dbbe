"""Change what the program means, a change at a time, and count those that the tests notice.

usage: python scripts/reliability/mutants.py [ROOM ...]

Each change of mutants.yaml, or of those in the rooms named, replaces a piece of text in a clone of the last
commit. The tests of its room are run there, then those of wiring, up to the first failure: those of
`make test`, and where none of these fails those of `make test-rest`; first the files named after the file
that changed. Tests that fail with nothing changed are left out, and named. Prints one JSON object: how many
changes, those noticed and those noticed by `make test`; the changes that only tests of `make test-rest` see,
that none sees, and whose text is gone.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
MARKS = {"quick": "not rest", "rest": "rest"}
# Tests of clusters take minutes, and fail where two run at once.
CLUSTERS = ("test_run_ray", "test_slurm")
PYTEST = ["-m", "pytest", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider", "-p", "no:xdist"]


@dataclass(frozen=True)
class Mutant:
    """A change of ``file``, and ``means``, a sentence about what a user would have of it."""

    file: str
    old: str
    new: str
    means: str

    @property
    def room(self) -> str:
        """The folder of its tests: that of the file, and of files that stand alone that of the training."""
        room = self.file.split("/")[1]
        return room if (ROOT / "tests" / room).is_dir() else "fit"

    @cached_property
    def stands(self) -> bool:
        """Whether its text stands in the file, once."""
        path = ROOT / self.file
        return path.exists() and path.read_text("utf-8").count(self.old) == 1


def mutants() -> list[Mutant]:
    listed = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
    return [Mutant(file, **one) for file, own in listed.items() for one in own]


class Clone:
    """A clone of the last commit in ``folder``, and what its tests say."""

    def __init__(self, folder: Path):
        self.path = folder / "clone"
        subprocess.run(["git", "clone", "-q", ROOT, self.path], check=True)
        # Beside the sources, compiled kernels of a change would take the place of all others.
        self.environment = os.environ | {"PYTHONPATH": str(self.path), "NUMBA_CACHE_DIR": f"{folder}/kernels"}
        self.whole: dict[tuple[str, str], tuple[list[str], float]] = {}
        """Kind and room -> the tests that fail with nothing changed, and the seconds that all take."""

    def noticed(self, one: Mutant) -> str:
        """The kind of the tests of which one notices the change; nothing if none does."""
        path = self.path / one.file
        text, kept = path.read_text("utf-8"), path.stat()
        for kind in MARKS:
            for room in dict.fromkeys((one.room, "wiring")):
                if (kind, room) not in self.whole:
                    begun = time.monotonic()
                    self.whole[kind, room] = self.failed(kind, room), time.monotonic() - begun
                unfit, seconds = self.whole[kind, room]
                path.write_text(text.replace(one.old, one.new), "utf-8")
                options = ["-x", *(f"--deselect={test}" for test in unfit)]
                # One that takes far longer than all together do is without end.
                found = self.failed(kind, room, path.stem, options, 60 + 5 * seconds)
                path.write_text(text, "utf-8")
                # Python and Numba know by the time what they have compiled.
                os.utime(path, ns=(kept.st_atime_ns, kept.st_mtime_ns))
                if found:
                    sys.stderr.write(f"{kind}: {found[0]}: {one.file}: {one.means}\n")
                    return kind
        sys.stderr.write(f"missed: {one.file}: {one.means}\n")
        return ""

    def failed(
        self, kind: str, room: str, first: str = "", options: list[str] | None = None, limit_s: float = 7200
    ) -> list[str]:
        """The tests of a room that fail; those of files with ``first`` in their name are run first."""
        files = [one for one in self.path.glob(f"tests/{room}/**/test_*.py") if one.stem not in CLUSTERS]
        files.sort(key=lambda file: (first not in file.stem, file))
        command = [sys.executable, *PYTEST, "-m", MARKS[kind], *(options or []), *files]
        with tempfile.TemporaryFile("w+") as said:
            process = subprocess.Popen(
                command, cwd=self.path, env=self.environment, stdout=said, stderr=said, start_new_session=True
            )
            try:
                status = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                return ["without end"]
            finally:
                # Processes that the tests left, too.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            said.seek(0)
            lines = [line.split(" ", 1) for line in said if line.startswith(("FAILED ", "ERROR "))]
        # None of the tests may be of the kind.
        unsaid = [] if lines or status in (0, 5) else [f"pytest ended with {status}"]
        return [test.split(" - ")[0].strip() for _, test in lines] + unsaid


def main(rooms: list[str]) -> None:
    listed = [one for one in mutants() if not rooms or one.room in rooms]
    # So that the clone goes with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory() as folder:
        clone = Clone(Path(folder))
        ends = {one: clone.noticed(one) if one.stands else "gone" for one in listed}
    named: dict[str, list[str]] = {end: [] for end in ("quick", "rest", "", "gone")}
    for one, end in ends.items():
        named[end].append(f"{one.file}: {one.means}")
    quick, slowly = len(named["quick"]), len(named["rest"])
    found = {"changes": quick + slowly + len(named[""]), "noticed": quick + slowly, "noticed quickly": quick}
    unfit = sorted({test for tests, _ in clone.whole.values() for test in tests})
    missed = {"slowly": named["rest"], "missed": named[""], "gone": named["gone"]}
    print(json.dumps({**found, **missed, "tests that fail without": unfit}))


if __name__ == "__main__":
    main(sys.argv[1:])
