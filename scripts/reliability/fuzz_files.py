"""Alter the files of runs, and see that each damage is told in one line while the other runs are compared.

usage: python scripts/reliability/fuzz_files.py [N] [SEED]

N alterations (default 3000): bits flipped, bytes cut, lines lost or doubled, values put in others' place, in
results.json (some of them without a checksum, as by an earlier version), status.json or metrics.jsonl of one
of four runs, which ``cnnpool compare`` then reads. Prints one JSON object; status 1 if it crashed, said more
than a line of a file, or took what was altered for the run's own.
"""

import json
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from cnnpool.report.comparison import compare
from cnnpool.report.runs import find, finished, records
from cnnpool.report.text import render
from cnnpool.run_folder import layout, results, status
from cnnpool.run_folder.results import Results
from scripts.reliability.fault.attempt import QUICK, command

FILES = (layout.RESULTS, layout.STATUS, layout.METRICS)
ODD = (
    None, True, -1, 0, 1, 7.5, 1e308, 2**70, "", "x", "\x1b[2J", "=1+1", [], {}, [[]], {"name": None},
    "NaN", ["x"] * 50, {"a": {"b": {"c": 1}}},
)  # fmt: skip
COUNTS = (
    "alterations",
    "told",
    "alike",
    "without a checksum",
    "crashed",
    "more than a line",
    "taken for true",
)


def main(arguments: list[str]) -> int:
    count, chance = int(arguments[0]) if arguments else 3000, random.Random(int([*arguments, 0, 0][1]))
    found = Counter(dict.fromkeys(COUNTS, 0))
    with tempfile.TemporaryDirectory() as folder:
        root = trained(Path(folder))
        whole = {path: path.read_bytes() for path in root.rglob("*") if path.name in FILES}
        for _ in range(count):
            path = chance.choice(sorted(whole))
            altered = chance.choice(ALTERATIONS)(whole[path], chance)
            if altered == whole[path]:
                continue
            path.write_bytes(altered)
            found["alterations"] += 1
            try:
                found[answer(root, path, whole[path])] += 1
            except ValueError:
                # Values without a checksum may differ, as between runs that cannot be compared.
                found[
                    "without a checksum" if "checksum" not in altered.decode(errors="replace") else "crashed"
                ] += 1
            except Exception as error:
                found["crashed"] += 1
                print(f"{path.name}: {type(error).__name__}: {error}", file=sys.stderr)
            path.write_bytes(whole[path])
    print(json.dumps({name: found[name] for name in COUNTS}))
    return int(any(found[name] for name in COUNTS[4:]))


def trained(folder: Path) -> Path:
    """Two seeds of two operators: two real runs, and each again under another seed."""
    root = folder / "runs"
    for pool in ("max", "avg"):
        code, _, err = command(
            ["train", *QUICK[:-1], "probe=default", f"pool={pool}", f"hydra.run.dir={root / pool / '0'}"],
            folder,
        )
        if code:
            sys.exit(err)
        shutil.copytree(root / pool / "0", root / pool / "1")
        one = results.read(root / pool / "0")
        results.write(root / pool / "1", Results(**{**vars(one), "seed": 1}))
    return root


def answer(root: Path, path: Path, whole: bytes) -> str:
    """The outcome of compare for the altered file at ``path``, whose content was ``whole``."""
    runs = find([root])
    comparison = compare(runs)
    said = render(comparison, width=200, colour=False)
    lines = [line for line in said.splitlines() if str(path) in line]
    if len(lines) > 1:
        return "more than a line"
    if lines:
        return "told"
    now, folder = path.read_bytes(), path.parent
    if path.name == layout.RESULTS and b"checksum" not in now:
        return "without a checksum"
    path.write_bytes(whole)
    before = content_of(folder, path.name)
    path.write_bytes(now)
    # The state of a finished run says nothing about its results, and may be anything.
    alike = path.name == layout.STATUS or content_of(folder, path.name) == before
    return "alike" if alike and len(finished(runs)) == 4 else "taken for true"


def content_of(folder: Path, name: str) -> object:
    """The content that is read from the file of that name in ``folder``."""
    if name == layout.METRICS:
        return records(next(iter(find([folder]))))
    return results.read(folder) if name == layout.RESULTS else status.read(folder)


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
    """Another value for a key, at any depth, of one line."""
    lines = content.splitlines() if content.count(b"\n{") else [content]
    place = chance.randrange(len(lines))
    node = whole = json.loads(lines[place])
    while True:
        key = chance.choice(list(node) if isinstance(node, dict) else range(len(node)))
        below = node[key]
        if not isinstance(below, dict | list) or not below or chance.random() < 0.3:
            break
        node = below
    if isinstance(node, dict) and chance.random() < 0.2:
        del node[key]
    else:
        node[key] = chance.choice(ODD)
    if chance.random() < 0.5:
        whole.pop("checksum", None)
    lines[place] = json.dumps(whole).encode()
    return b"\n".join(lines) + b"\n"


def junk(content: bytes, chance: random.Random) -> bytes:
    return chance.choice(
        (
            b"",
            b"null",
            b"[" * 100_000,
            b'{"a":' * 100_000,
            b"\0" * 64,
            b"\xff\xfe",
            chance.randbytes(100),
            b"1" * 9999,
        )
    )


ALTERATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    flip,
    flip,
    cut,
    shuffle_lines,
    replace_value,
    junk,
)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
