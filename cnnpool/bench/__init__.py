"""``cnnpool bench``: cnnpool's operators and named rivals, timed alternately in one process."""

import argparse
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cnnpool.bench.results import check_out, header, line, record
from cnnpool.cli_parser import Parser
from cnnpool.system.process import share_cores

if TYPE_CHECKING:
    import torch

SUITES = ("pool",)
DESCRIPTION = """\
Forward + backward of our operators against named rivals, beside a copy of the bytes that must move.
Medians over turns.
"""
EXAMPLES = """\
examples:
  cnnpool bench
  cnnpool bench pool --only max blur --shapes small
  cnnpool bench pool --threads 2 --out pool.json
  cnnpool bench pool --plain --only max
  cnnpool bench pool --device cuda
  cnnpool bench pool --rival compile --only max avg
"""
SIZES = ("small", "default", "all")


def main(arguments: list[str]) -> int:
    """Run ``cnnpool bench [SUITE]``; returns the exit status. Mistakes are a ValueError of one line."""
    args = parser().parse_args(arguments)
    if (args.threads is not None and args.threads < 1) or args.repeat < 3:
        raise ValueError(f"--threads must be at least 1 and --repeat 3, got {args.threads} and {args.repeat}")
    check_out(args.out)
    if not re.fullmatch(r"cpu|cuda(:\d+)?", args.device):
        raise ValueError(f"--device {args.device}: choose cpu, cuda or cuda:N")

    if not args.plain:
        share_cores()
    from cnnpool.bench import measure

    threads = args.threads or (None if args.plain else 1)
    device = measure.prepare(threads, args.device, plain=args.plain)
    command = shlex.join(["cnnpool", "bench", *arguments])
    record(_rows(args, device), args.suite, command, device, args.out)
    return 0


def _rows(args: argparse.Namespace, device: "torch.device") -> Iterator[tuple[dict[str, Any], str]]:
    from cnnpool.bench import pool

    cases, before = pool.cases(args.shapes, args.only, device), ""
    sys.stdout.write(header(device.type == "cuda"))
    for case in cases:
        row = pool.measure(case, args.repeat, device, args.rival)
        row |= {"plain": True} if args.plain else {}
        text = line(row)
        # Report a rival that is not installed once, not for each map.
        yield row, "" if "missing" in row and text == before else text
        before = text


def parser() -> Parser:
    result = Parser(
        prog="cnnpool bench",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    result.add_argument("suite", nargs="?", default="pool", choices=SUITES, help="default: pool")
    result.add_argument(
        "--threads", type=int, metavar="N", help="of torch (default: 1; with --plain torch's own)"
    )
    result.add_argument("--repeat", type=int, default=15, metavar="N", help="turns per case (default: 15)")
    result.add_argument("--device", default="cpu", metavar="NAME", help="cpu, cuda or cuda:N (default: cpu)")
    result.add_argument(
        "--rival",
        choices=("eager", "compile"),
        default="eager",
        help="as it is (default), or by torch.compile",
    )
    result.add_argument(
        "--plain",
        action="store_true",
        help="as in a script that sets nothing; the default is as in training, which keeps freed memory "
        "(cnnpool.keep_memory) and lets idle threads sleep (GOMP_SPINCOUNT)",
    )
    result.add_argument("--shapes", choices=SIZES, default="default", help="how many (default: default)")
    result.add_argument("--only", nargs="+", default=[], metavar="OPERATOR", help="these operators alone")
    result.add_argument("--out", type=Path, metavar="FILE", help="write the results as JSON")
    return result
