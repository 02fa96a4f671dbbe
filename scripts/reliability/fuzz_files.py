"""Alter files below a folder of runs, and see that each damage is named while the rest goes on.

usage: python scripts/reliability/fuzz_files.py [N] [SEED]

N alterations (default 3000) of all that ``cnnpool compare`` and TensorBoard's tab read there: results,
status, metrics, routing, settings, the plan of a sweep, a study. Bits are flipped, bytes cut, lines lost or
doubled, values put in others' place, and junk, pipes, folders and links in a file's place. Prints one JSON
object; status 1 if one of the two crashed, took more than ``PATIENCE_S`` or ``MEMORY``, said more than a line
of a file, or left a run out without a word.
"""

import json
import os
import random
import re
import resource
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import yaml
from tensorboard.plugins.base_plugin import TBContext
from werkzeug.test import Client

from cnnpool.choose import ledger
from cnnpool.report import render
from cnnpool.report.comparison import compare
from cnnpool.report.foreign import read
from cnnpool.run_folder import layout, plan, results, routing
from cnnpool.run_folder.results import Results
from cnnpool.tables import Column
from cnnpool.tensorboard.loader import Loader
from scripts.reliability.attempt import QUICK, command
from scripts.reliability.fuzzing import Hung, fuzz, patience

SETTINGS, PLAN = "config.yaml", "plan.json"
FILES = (layout.RESULTS, layout.STATUS, layout.METRICS, layout.ROUTING, SETTINGS, PLAN, ledger.LIVE)
FIGURES = {layout.ROUTING: "routing", layout.METRICS: "learning"}
PROBES = (
    "probe=default",
    *(f"probe.invariance.{one}=16" for one in ("samples", "shift_samples", "map_samples")),
)
MEMORY = 1 << 31
"""Bytes of addresses that one alteration may take beyond those taken before."""
ODD = (
    None, True, -1, 0, 1, 7.5, 1e308, 2**70, "", "x", "\x1b[2J", "=1+1", [], {}, [[]], {"name": None},
    "NaN", ["x"] * 50, {"a": {"b": {"c": 1}}},
)  # fmt: skip
JUNK = (
    b"", b"null", b"[" * 100_000, b'{"a":' * 100_000, b"\0" * 64, b"\xff\xfe", b"1" * 9999,
    b'{"schema": 1, "time": 1' + b"0" * 400 + b"}", b"&a [*a]", b"a: &a [x, x]\nb: [*a, *a]\n",
    b"PK\x05\x06" + b"\0" * 18,
)  # fmt: skip
COUNTS = ("alterations", "told", "of no effect", "crashed", "hung", "more than a line", "left out in silence")


def main(arguments: list[str]) -> int:
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        root = trained(Path(folder))
        whole = {path: path.read_bytes() for path in sorted(root.rglob("*")) if path.name in FILES}
        assert {path.name for path in whole} == set(FILES)
        before = outcome(root, next(iter(whole)))
        assert before[0] == "of no effect", before

        def altered(chance: random.Random) -> str | None:
            path = chance.choice(sorted(whole))
            if not alter(path, whole[path], chance):
                return None
            what, left = outcome(root, path)
            # A link that leads nowhere is no file; plans and studies are regular files or none.
            there = path.is_file() if path.name in (PLAN, ledger.LIVE) else path.exists()
            if what == "of no effect" and left < before[1] and there:
                what = "left out in silence"
            if what in COUNTS[3:]:
                said = path.read_bytes()[:100] if path.is_file() else "no regular file"
                print(f"{what}: {path.relative_to(root)}: {said!r}", file=sys.stderr)
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
            path.write_bytes(whole[path])
            return what

        return fuzz(arguments, COUNTS, altered)


def trained(folder: Path) -> Path:
    """Two real runs, each again under another seed, a run that goes on, the plan of a sweep and a study."""
    root = folder / "runs"
    for pool in ("max", "avg"):
        out = f"hydra.run.dir={root / pool / '0'}"
        code, _, err = command(["train", *QUICK[:-1], *PROBES, f"pool={pool}", out], folder)
        if code:
            sys.exit(err)
        images = np.arange(2 * 8 * 8 * 3).astype(np.uint8).reshape(2, 8, 8, 3)
        routing.write(root / pool / "0", routing.Routing(images, {"s1": np.full((2, 4, 4), 0.5)}))
        shutil.copytree(root / pool / "0", root / pool / "1")
        one = results.read(root / pool / "0")
        results.write(root / pool / "1", Results(**{**vars(one), "seed": 1}))
    shutil.copytree(root / "max" / "0", root / "going" / "0")
    (root / "going" / "0" / layout.RESULTS).unlink()
    (root / "going" / "0" / layout.STATUS).write_text('{"state": "running"}')
    jobs = {"max/0": ["pool=max"], "lip/0": ["pool=lip"], "lip/1": ["pool=lip", "seed=1"]}
    (root / plan.FOLDER).mkdir()
    (root / plan.FOLDER / PLAN).write_text(json.dumps({"schema": 1, "time": 1.0, "jobs": jobs}))
    study = ledger.Live(
        said="round 2", rounds=1, planned=3, ended=1, requested=2, spent_s=5.0, budget_s=60.0, time=1.0,
        candidates=[Column("candidate", ["max", "avg"])], left=[True, False],
        gone=[("avg", "after round 1")],
    )  # fmt: skip
    (root / "study").mkdir()
    (root / "study" / ledger.LIVE).write_bytes(ledger.content_of(study))
    return root


def outcome(root: Path, path: Path) -> tuple[str, int]:
    """How the altered file at ``path`` is taken, and how many runs are compared and shown."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, hard))
    try:
        with patience():
            lines, compared = compared_lines(root, path)
            named, shown_runs = of_the_tab(root, path)
    except Hung:
        return "hung", 0
    except Exception as error:
        print(f"{path.name}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
        return "crashed", 0
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    what = "more than a line" if lines > 1 else "told" if lines or named else "of no effect"
    return what, compared + shown_runs


def compared_lines(root: Path, path: Path) -> tuple[int, int]:
    """Lines that compare says of the file, and the runs that it compares."""
    try:
        comparison = compare(read([root]))
        said, compared = render.text(comparison, width=200, colour=False), len(comparison.compared)
    except ValueError as error:
        # Settings that were altered, as of runs that cannot be compared: the command says so in a line.
        said, compared = f"{path}: {error}", 0
    return sum(str(path) in line for line in said.splitlines()), compared


def of_the_tab(root: Path, path: Path) -> tuple[bool, int]:
    """Whether the tab names the file or its folder among what is not done, and how many runs it counts.

    Raises:
        RuntimeError: if a route answers by an error.
    """
    apps = Loader().load(TBContext(logdir=str(root))).get_plugin_apps()

    def asked(route: str, **arguments: str) -> str:
        answer = Client(apps[route]).get(route, query_string=arguments)
        if answer.status_code != 200:
            raise RuntimeError(f"{route} answers {answer.status_code}")
        return answer.text

    page = asked("/page")
    if figure := FIGURES.get(path.name):
        asked("/figure", name=figure)
    known = re.findall(r"(\d+) (?:done|running|waiting|failed|unfinished|not started)", page)
    return path.name in page or "is damaged" in page, sum(map(int, known))


def alter(path: Path, content: bytes, chance: random.Random) -> bool:
    """Alter the file, or put something else in its place; False where nothing would change."""
    if chance.random() < 0.1:
        path.unlink()
        chance.choice(PLACED)(path)
        return True
    altered = chance.choice(ALTERATIONS)(content, chance)
    path.write_bytes(altered)
    return altered != content


PLACED: tuple[Callable[[Path], object], ...] = (
    os.mkfifo,
    os.mkdir,
    lambda path: path.symlink_to(path.name),
    lambda path: path.symlink_to("nowhere"),
    lambda path: path.symlink_to("/dev/zero"),
)


def flip(content: bytes, chance: random.Random) -> bytes:
    altered = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 8))):
        altered[chance.randrange(len(altered))] ^= 1 << chance.randrange(8)
    return bytes(altered)


def cut(content: bytes, chance: random.Random) -> bytes:
    begin = chance.randrange(len(content))
    return content[:begin] + content[chance.choice((begin + 1, begin + 40, len(content))) :]


def shuffle_lines(content: bytes, chance: random.Random) -> bytes:
    lines = content.splitlines(keepends=True)
    place = chance.randrange(len(lines))
    lines[place : place + 1] = chance.choice(
        ([], [lines[place]] * 2, [b"\n"], [b"{}\n"], [chance.choice(lines)])
    )
    return b"".join(lines)


def replace_value(content: bytes, chance: random.Random) -> bytes:
    """Another value for a key, at any depth, of one line; bits flipped where there are no keys."""
    lines = content.splitlines() if content.count(b"\n{") else [content]
    place = chance.randrange(len(lines))
    try:
        node = whole = yaml.safe_load(lines[place])
    except (ValueError, yaml.YAMLError):
        return flip(content, chance)
    while True:
        key = chance.choice(list(node) if isinstance(node, dict) else range(len(node)))
        below = node[key]
        if not isinstance(below, dict | list) or not below or chance.random() < 0.3:
            break
        node = below
    node[key] = chance.choice(ODD)
    # JSON is YAML too.
    lines[place] = json.dumps(whole).encode()
    return b"\n".join(lines) + b"\n"


ALTERATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    flip,
    cut,
    shuffle_lines,
    replace_value,
    lambda content, chance: chance.choice(JUNK),
)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
