"""Flip single bits of a checkpoint, and see that none is taken for whole with other content.

usage: python scripts/reliability/flip_bits.py [N] [SEED]

N bits (default 3000) of the checkpoint of a small run, one at a time. Prints one JSON object; status 1 if a
flipped bit changed what was read without a word.
"""

import random
import sys
import tempfile
from pathlib import Path

import torch

from cnnpool.run_folder.checkpoint import DamagedError, load
from scripts.reliability.attempt import QUICK, command
from scripts.reliability.fuzzing import fuzz


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        command(["train", *QUICK, "hydra.run.dir=run", "readout=gap"], Path(folder))
        path = Path(folder, "run", "checkpoints", "last.ckpt")
        whole, content = path.read_bytes(), load(path)

        def flipped(chance: random.Random) -> str:
            bit = chance.randrange(8 * len(whole))
            altered = bytearray(whole)
            altered[bit // 8] ^= 1 << bit % 8
            path.write_bytes(altered)
            try:
                return "read alike" if same(load(path), content) else "read otherwise"
            except DamagedError:
                return "refused"

        return fuzz(arguments, ("bits", "refused", "read alike", "read otherwise"), flipped)


def same(a: object, b: object) -> bool:
    """Whether two contents are equal to the bit."""
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return a == b


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
