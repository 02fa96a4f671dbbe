"""Alter the compiled kernels on disk, and see that a process finds it out and computes the same.

usage: python scripts/reliability/fuzz_kernels.py [N] [SEED]

N alterations (default 100) of the files of two kernels, one of which calls the other, and of their
checksums: bits flipped, bytes cut, files emptied, removed, put in each other's place or overwritten. A fork
then uses the kernels. Prints one JSON object; status 1 if one crashed, computed something else, or said more
than a line.
"""

import importlib
import json
import logging
import os
import random
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch

from cnnpool.pool.cpu import disk_cache, memory, threads
from scripts.reliability.fuzz_files import cut, flip, junk

KERNELS = """
from cnnpool.pool.cpu.loops.intrinsics import store

def inner(value):
    return value + value

def outer(start, stop, target, like):
    for i in range(start, stop):
        store(target, i, inner(like))
"""
DTYPES = (torch.float32, torch.float64)
SUFFIXES = (".nbi", ".nbc", ".sha256")
COUNTS = (
    "alterations",
    "told",
    "made again",
    "read alike",
    "crashed",
    "computed otherwise",
    "more than a line",
)
Files = dict[Path, bytes]


def main(arguments: list[str]) -> int:
    count, chance = int(arguments[0]) if arguments else 100, random.Random(int([*arguments, 0, 0][1]))
    torch.set_num_threads(1)
    found = Counter(dict.fromkeys(COUNTS, 0))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "doubled.py").write_text(KERNELS)
        if answer(folder) != "made again":
            sys.exit("the kernels cannot be kept on disk")
        whole = files(folder)
        while found["alterations"] < count:
            path = chance.choice(sorted(whole))
            altered = chance.choice(ALTERATIONS)(whole, path, chance)
            if altered == whole[path]:
                continue
            path.unlink() if altered is None else path.write_bytes(altered)
            found["alterations"] += 1
            found[answer(folder)] += 1
            for known in files(folder).keys() - whole.keys():
                known.unlink()
            for known, content in whole.items():
                known.write_bytes(content)
    print(json.dumps({name: found[name] for name in COUNTS}))
    return int(any(found[name] for name in COUNTS[4:]))


def files(folder: Path) -> Files:
    """The content of every file of the cache."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.suffix in SUFFIXES}


def answer(folder: Path) -> str:
    """The outcome of a process that uses the kernels of ``folder``."""
    said = folder / "said"
    process = os.fork()
    if not process:
        status = 99
        try:
            os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
            logging.basicConfig(format="%(message)s", level=logging.WARNING, force=True)
            status = use(folder)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    lines = said.read_text(errors="replace").splitlines()
    if status not in (0, 1, 2):
        print(f"status {status}", *lines[-3:], sep="\n", file=sys.stderr)
        return "crashed"
    if status == 2 or len(lines) > 1:
        return "computed otherwise" if status == 2 else "more than a line"
    return "told" if lines else "made again" if status else "read alike"


def use(folder: Path) -> int:
    """0: both kernels came from disk; 1: one was compiled; 2: what they computed is wrong."""
    sys.path.insert(0, str(folder))
    module = importlib.import_module("doubled")
    module.inner, kernel = disk_cache.compiled(module.inner), disk_cache.compiled(module.outer)
    for dtype in DTYPES:
        out = torch.zeros(3, dtype=dtype)
        threads.spread(kernel, 3, 0, out.data_ptr(), memory.scalar(21.0, dtype))
        if out.tolist() != [42.0] * 3:
            return 2
    return int(any(kernel.stats.cache_misses.values()))


def other(whole: Files, path: Path, chance: random.Random) -> bytes:
    """The whole content of another file of the same kind."""
    return whole[chance.choice([one for one in sorted(whole) if one.suffix == path.suffix])]


ALTERATIONS: tuple[Callable[[Files, Path, random.Random], bytes | None], ...] = (
    lambda whole, path, chance: flip(whole[path], chance),
    lambda whole, path, chance: flip(whole[path], chance),
    lambda whole, path, chance: cut(whole[path], chance),
    lambda whole, path, chance: junk(whole[path], chance),
    lambda whole, path, chance: None,
    other,
)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
