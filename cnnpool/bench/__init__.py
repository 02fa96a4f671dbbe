"""Benchmarks against named rivals: both in one process, in turn, so that a busy machine slows both alike."""

import argparse
import json
import os
import re
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from cnnpool.cli_parser import Parser
from cnnpool.run_folder.atomic import write_text

if TYPE_CHECKING:
    import torch

SUITES = ("pool", "train", "mnist", "start", "sweep", "scale")
DESCRIPTION = """\
pool:  forward + backward of our operators against named rivals, beside a copy of the bytes that must move
train: a run beside loops that do less
mnist: seconds to an accuracy
start: from the command to an answer
sweep: runs at once and one after the other
scale: what grows with what
Medians over turns.
"""
EXAMPLES = """\
examples:
  cnnpool bench
  cnnpool bench pool --only max blur --shapes small
  cnnpool bench pool --threads 2 --out pool.json
  cnnpool bench pool --device cuda
"""
SIZES = ("small", "default", "all")


def main(arguments: list[str]) -> int:
    """``cnnpool bench [SUITE]``; returns the exit status.

    Raises:
        ValueError: for an unknown operator, a number out of range, a device that is not there, or a file that
            cannot be written.
    """
    asked = parser().parse_args(arguments)
    if asked.threads < 1 or asked.repeat < 3:
        raise ValueError(
            f"--threads must be at least 1 and --repeat 3, got {asked.threads} and {asked.repeat}"
        )
    if asked.out and not asked.out.resolve().parent.is_dir():
        raise ValueError(f"--out {asked.out}: no such folder")
    if asked.out and asked.out.exists() and not asked.out.is_file():
        raise ValueError(f"--out {asked.out}: not a file, which the results could replace")
    if not re.fullmatch(r"cpu|cuda(:\d+)?", asked.device):
        raise ValueError(f"--device {asked.device}: choose cpu, cuda or cuda:N")
    if asked.device != "cpu" and asked.suite != "pool":
        raise ValueError(f"--device {asked.device}: the suite {asked.suite} is for the CPU, leave it out")

    from cnnpool.bench import machine

    device = machine.prepare(asked.threads, asked.device)
    command = shlex.join(["cnnpool", "bench", *arguments])
    rows = []
    for row, said in _pool(asked, device) if asked.suite == "pool" else _runs(asked):
        rows.append(row)
        sys.stdout.write(said)
        sys.stdout.flush()
        if asked.out:
            # After every row: what is stopped has what it measured.
            results = {
                "suite": asked.suite,
                "command": command,
                "machine": machine.facts(device),
                "rows": rows,
            }
            _write(asked.out, {"schema": 1, **results})
    if asked.out:
        sys.stdout.write(f"wrote {asked.out}\n")
    return 0


def _write(out: Path, results: dict) -> None:
    try:
        write_text(out.resolve(), json.dumps(results, indent=1) + "\n")
    except OSError as error:
        raise ValueError(f"--out {out}: {error.strerror}") from None


def _pool(asked: Namespace, device: "torch.device") -> Iterator[tuple[dict, str]]:
    """Rows of the operators' suite, and what is said of each."""
    from cnnpool.bench import page, pool

    cases = pool.cases(asked.shapes, asked.only, device)
    sys.stdout.write(page.header(device.type == "cuda"))
    for case in cases:
        row = pool.measure(case, asked.repeat, device)
        yield row, page.line(row)


def _runs(asked: Namespace) -> Iterator[tuple[dict, str]]:
    """Rows of a suite of whole runs, and what is said of each."""
    from cnnpool.bench import figures, mnist, scale, start, sweep, train

    suites = {
        "train": lambda: train.rows(asked.root, asked.repeat),
        "mnist": lambda: mnist.rows(asked.root, asked.repeat),
        "start": lambda: start.rows(asked.repeat),
        "sweep": lambda: sweep.rows(asked.repeat),
        "scale": lambda: scale.rows(asked.only or ["max"], asked.repeat),
    }
    said = scale if asked.suite == "scale" else figures
    sys.stdout.write(said.header())
    for row in suites[asked.suite]():
        yield row, said.line(row)


def parser() -> Parser:
    """The arguments of ``cnnpool bench``."""
    found = Parser(
        prog="cnnpool bench",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    found.add_argument("suite", nargs="?", default="pool", choices=SUITES, help="default: pool")
    found.add_argument("--threads", type=int, default=1, metavar="N", help="of torch (default: 1)")
    found.add_argument("--repeat", type=int, default=15, metavar="N", help="turns per case (default: 15)")
    places = "of the suite pool: cpu, cuda or cuda:N (default: cpu)"
    found.add_argument("--device", default="cpu", metavar="NAME", help=places)
    found.add_argument("--shapes", choices=SIZES, default="default", help="how many (default: default)")
    found.add_argument("--only", nargs="+", default=[], metavar="OPERATOR", help="these operators alone")
    root = Path(os.environ.get("CNNPOOL_DATA", "data"))
    found.add_argument("--root", type=Path, default=root, metavar="FOLDER", help="of MNIST's files")
    found.add_argument("--out", type=Path, metavar="FILE", help="write the results as JSON")
    return found
