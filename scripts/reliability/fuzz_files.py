"""Alter the files of runs, and see that each damage costs at most a line while the other runs are compared.

usage: python scripts/reliability/fuzz_files.py [N] [SEED]

N alterations (default 3000): bits flipped, bytes cut, lines lost or doubled, values put in others' place, in
results.json, status.json or metrics.jsonl of one of four runs, which ``cnnpool compare`` then reads. Prints
one JSON object; status 1 if it crashed, or said more than a line of a file.
"""

import json
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from cnnpool.report import render
from cnnpool.report.comparison import compare
from cnnpool.report.runs import find
from cnnpool.run_folder import layout, results
from cnnpool.run_folder.results import Results
from scripts.reliability.fault.attempt import QUICK, command

FILES = (layout.RESULTS, layout.STATUS, layout.METRICS)
ODD = (
    None, True, -1, 0, 1, 7.5, 1e308, 2**70, "", "x", "\x1b[2J", "=1+1", [], {}, [[]], {"name": None},
    "NaN", ["x"] * 50, {"a": {"b": {"c": 1}}},
)  # fmt: skip
JUNK = (b"", b"null", b"[" * 100_000, b'{"a":' * 100_000, b"\0" * 64, b"\xff\xfe", b"1" * 9999)
COUNTS = ("alterations", "told", "of no effect", "crashed", "more than a line")


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
            found[answer(root, path)] += 1
            path.write_bytes(whole[path])
    print(json.dumps({name: found[name] for name in COUNTS}))
    return int(any(found[name] for name in COUNTS[3:]))


def trained(folder: Path) -> Path:
    """Two seeds of two operators: two real runs, and each again under another seed."""
    root = folder / "runs"
    for pool in ("max", "avg"):
        out = f"hydra.run.dir={root / pool / '0'}"
        code, _, err = command(["train", *QUICK[:-1], "probe=default", f"pool={pool}", out], folder)
        if code:
            sys.exit(err)
        shutil.copytree(root / pool / "0", root / pool / "1")
        one = results.read(root / pool / "0")
        results.write(root / pool / "1", Results(**{**vars(one), "seed": 1}))
    return root


def answer(root: Path, path: Path) -> str:
    """The outcome of compare for the altered file at ``path``."""
    try:
        said = render.text(compare(find([root])), width=200, colour=False)
    except ValueError as error:
        # Settings that were altered, as of runs that cannot be compared: the command says so in a line.
        said = f"{path}: {error}"
    except Exception as error:
        print(f"{path.name}: {type(error).__name__}: {error}", file=sys.stderr)
        return "crashed"
    lines = [line for line in said.splitlines() if str(path) in line]
    return "more than a line" if len(lines) > 1 else "told" if lines else "of no effect"


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
    node[key] = chance.choice(ODD)
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
