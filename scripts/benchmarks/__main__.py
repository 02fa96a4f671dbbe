"""Measure cnnpool's own training, start and sweeps beside programs that do the same.

usage: python scripts/benchmarks SUITE [OPTIONS]
"""

import argparse
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cnnpool.bench import check_out, record
from cnnpool.cli_parser import Parser
from cnnpool.system.process import share_cores

SUITES = ("kernels", "train", "images", "memory", "networks", "start", "sweep")


def main(arguments: list[str]) -> int:
    """Run one suite; returns the exit status.

    Raises:
        ValueError: for a number out of range, or a file that cannot be written.
    """
    asked = _parser().parse_args(arguments)
    if asked.threads < 1 or asked.repeat < 3:
        raise ValueError(
            f"--threads must be at least 1 and --repeat 3, got {asked.threads} and {asked.repeat}"
        )
    if asked.images < 32:
        raise ValueError(f"--images must be at least 32, a batch, got {asked.images}")
    check_out(asked.out)

    from cnnpool.bench import measure

    device = measure.prepare(asked.threads, "cpu")
    command = shlex.join(["python", "scripts/benchmarks", *arguments])
    record(_rows(asked), asked.suite, command, device, asked.out)
    return 0


def _rows(asked: argparse.Namespace) -> Iterator[tuple[dict[str, Any], str]]:
    """Rows of the suite, each with its line for the terminal."""
    from scripts.benchmarks import figures, images, memory, networks, start, sweep, train

    suites = {
        "kernels": lambda: train.kernels(asked.repeat),
        "train": lambda: train.rows(asked.root, asked.repeat),
        "images": lambda: images.rows(asked.images, asked.repeat),
        "memory": lambda: memory.rows(asked.images, asked.repeat),
        "networks": lambda: networks.rows(asked.repeat),
        "start": lambda: start.rows(asked.repeat),
        "sweep": lambda: sweep.rows(asked.repeat),
    }
    sys.stdout.write(figures.header())
    for row in suites[asked.suite]():
        yield row, figures.line(row)


def _parser() -> Parser:
    parser = Parser(
        "python scripts/benchmarks",
        "kernels: training steps with our kernels and without. train: a run beside loops that do less.\n"
        "images: a folder beside torchvision's loop. memory: of a run on a folder that does not fit.\n"
        "networks: filters in published ones, ours and timm's. start: from the command to an answer.\n"
        "sweep: runs at once and one after the other.",
        "example: python scripts/benchmarks start --repeat 5 --out start.json",
    )
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of torch (default: 1)")
    parser.add_argument("--repeat", type=int, default=15, metavar="N", help="turns per case (default: 15)")
    photos = "photographs of the suites images and memory, 32 or more (default: 2000)"
    parser.add_argument("--images", type=int, default=2000, metavar="N", help=photos)
    root = Path(os.environ.get("CNNPOOL_DATA", "data"))
    parser.add_argument("--root", type=Path, default=root, metavar="FOLDER", help="of MNIST's files")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the results as JSON")
    return parser


if __name__ == "__main__":
    # Before torch is imported: its threads and Numba's take turns, and one that spins blocks the other.
    share_cores()
    try:
        sys.exit(main(sys.argv[1:]))
    except ValueError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
