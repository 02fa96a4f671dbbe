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
from cnnpool.system.process import share_cores

SUITES = ("kernels", "train", "images", "memory", "networks", "start", "sweep")


def main(arguments: list[str]) -> None:
    """Run one suite."""
    asked = _parser().parse_args(arguments)
    check_out(asked.out)

    from cnnpool.bench import measure

    device = measure.prepare(asked.threads, "cpu")
    command = shlex.join(["python", "scripts/benchmarks", *arguments])
    record(_rows(asked), asked.suite, command, device, asked.out)


def _rows(asked: argparse.Namespace) -> Iterator[tuple[dict[str, Any], str]]:
    """Rows of the suite, each with its line for the terminal."""
    from scripts.benchmarks import figures, images, memory, networks, start, train

    suites = {
        "kernels": lambda: train.kernels(asked.repeat),
        "train": lambda: train.rows(asked.root, asked.repeat),
        "images": lambda: images.rows(asked.images, asked.repeat),
        "memory": lambda: memory.rows(asked.images, asked.repeat),
        "networks": lambda: networks.rows(asked.repeat),
        "start": lambda: start.rows(asked.repeat),
        "sweep": lambda: start.sweeps(asked.repeat),
    }
    sys.stdout.write(figures.header())
    for row in suites[asked.suite]():
        yield row, figures.line(row)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python scripts/benchmarks",
        description="kernels: training steps with our kernels and without. train: a run beside loops that do "
        "less. images: a folder beside torchvision's loop. memory: of a run on a folder that does not fit. "
        "networks: filters in published ones, ours and timm's. start: from the command to an answer. "
        "sweep: runs at once and one after the other.",
        epilog="example: python scripts/benchmarks start --repeat 5 --out start.json",
    )
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of torch (default: 1)")
    turns = "turns per case, 3 or more (default: 15)"
    parser.add_argument("--repeat", type=int, default=15, metavar="N", help=turns)
    photos = "photographs of the suites images and memory, 32 or more (default: 2000)"
    parser.add_argument("--images", type=int, default=2000, metavar="N", help=photos)
    root = Path(os.environ.get("CNNPOOL_DATA", "data"))
    parser.add_argument("--root", type=Path, default=root, metavar="FOLDER", help="of MNIST's files")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the results as JSON")
    return parser


if __name__ == "__main__":
    # Before torch is imported: its threads and Numba's take turns, and one that spins blocks the other.
    share_cores()
    main(sys.argv[1:])
