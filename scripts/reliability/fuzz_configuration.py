"""Alter configuration files and words of a command line, and see that each is fine or refused in one line.

usage: python scripts/reliability/fuzz_configuration.py [N] [SEED]

N cases (default 3000), half of them words after ``cnnpool train``, half files of a folder that --config-dir
names: bytes flipped, values and keys put in others' place, references, functions, tags, aliases, depth and
sizes. Each goes through ``--cfg job --resolve`` or, job by job, through every check that comes before
training. Prints one JSON object; status 1 if anything crashed, hung, ran code, wrote a file, or said other
than one line that a terminal can show.
"""

import io
import json
import os
import random
import signal
import sys
import tempfile
import unicodedata
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from cnnpool import cli
from cnnpool.cli_parser import train_parser
from cnnpool.launch import conf_dir
from cnnpool.launch.compose import Request, jobs_of
from cnnpool.system.output import Visible
from scripts.reliability.configuration_cases import Case, cases

PATIENCE_S = 20
"""Of computing, on a slow machine; a usual case takes 0.05."""
COUNTS = ("cases", "fine", "refused", "crashed", "hung", "not one line", "unprintable", "harmful")
HARM = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "subprocess.Popen",
    "socket.connect",
    "pickle.find_class",
)
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Hung(BaseException):
    """A case took longer than it may."""


class Watch:
    """Hears of programs, connections, files that are written and foreign modules."""

    def __init__(self) -> None:
        self.on, self.seen = False, list[str]()
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple) -> None:
        if not self.on:
            return
        if event in HARM:
            self.seen.append(f"{event}{arguments!r}"[:200])
        elif event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES:
            name = str(arguments[0])
            if name != os.devnull and "__pycache__" not in name:
                self.seen.append(f"wrote {name}")
        elif event == "import" and str(arguments[0]).partition(".")[0] in ("harm", "evil"):
            self.seen.append(f"imported {arguments[0]}")


def main(arguments: list[str]) -> int:
    count, chance = int(arguments[0]) if arguments else 3000, random.Random(int([*arguments, 0, 0][1]))
    # A first call imports and writes, which is none of a case's doing.
    look(["pool=avg"], dry=True)
    found, watch = Counter(dict.fromkeys(COUNTS, 0)), Watch()
    signal.signal(signal.SIGVTALRM, _stop)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("harm.py").write_text("raise SystemExit('harm was imported')\n")
        for case in cases(conf_dir(), count, chance):
            outcome, said = tried(case, watch)
            found["cases"] += 1
            found[outcome] += 1
            if outcome not in ("fine", "refused"):
                print(f"{outcome}: {case} -> {said!r}"[:2000], file=sys.stderr)
        os.chdir("/")
    print(json.dumps({name: found[name] for name in COUNTS}))
    return int(any(found[name] for name in COUNTS[3:]))


def tried(case: Case, watch: Watch) -> tuple[str, str]:
    """The outcome of a case, and the line that was said."""
    made = []
    for name, content in case.files.items():
        path = Path("mine", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        made.append(path)
    Path("mine").mkdir(exist_ok=True)
    before = {path for path in Path().rglob("*") if path.is_file()}
    watch.seen.clear()
    watch.on = True
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE_S)
    try:
        status, said = look(case.words, dry=case.dry)
    except Hung:
        return "hung", ""
    except BaseException as error:
        return "crashed", f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        watch.on = False
        new = {path for path in Path().rglob("*") if path.is_file()} - before
        for path in made:
            path.unlink(missing_ok=True)
    if watch.seen or new:
        return "harmful", "; ".join([*watch.seen, *map(str, new)])
    if status == 0:
        return "fine", said
    if status != 2 or not said.startswith("error: ") or said.count("\n") != 1:
        return "not one line", f"{status}: {said}"
    shown = all(unicodedata.category(mark) not in ("Cc", "Zl", "Zp") for mark in said[:-1])
    return ("refused" if shown else "unprintable"), said


def look(words: list[str], *, dry: bool) -> tuple[int, str]:
    """(exit status, stderr) of printing what ``words`` after ``cnnpool train`` ask for, or of checking it."""
    content = io.BytesIO()
    # As on a terminal: control characters are escapes there.
    err = Visible(content, "utf-8", "backslashreplace", line_buffering=True)
    with redirect_stdout(io.StringIO()), redirect_stderr(err):
        try:
            if dry:
                _checked(words)
            else:
                cli.main(["train", "--cfg", "job", "--resolve", *words])
            status = 0
        except SystemExit as end:
            status = int(end.code or 0)
    # A line of information is no refusal.
    said = content.getvalue().decode()
    return status, said[said.find("error: ") :] if status and "error: " in said else said


def _checked(words: list[str]) -> None:
    """All that ``cnnpool train`` checks before it reads data, with the mistakes told as it does."""
    asked = train_parser().parse_intermixed_args(words)
    try:
        request = Request(asked.overrides, asked.multirun, asked.config_dir, asked.config_name, 20)
        for job in jobs_of(request):
            if job.mistake:
                raise ValueError(job.mistake)
    except ValueError as error:
        cli.fail(str(error))
    except OSError as error:
        cli.fail(*cli.explained(error))


def _stop(*_: object) -> None:
    raise Hung


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
