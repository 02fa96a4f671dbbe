"""Benchmarks against named rivals: both in one process, in turn, so that a busy machine slows both alike."""

import json
import shlex
import sys
from pathlib import Path

from cnnpool.parser import Parser

SUITES = ("pool",)
SIZES = ("small", "default", "all")


def main(arguments: list[str]) -> int:
    """``cnnpool bench [SUITE]``; returns the exit status.

    Raises:
        ValueError: for an unknown operator, a number out of range, or a file that cannot be written.
    """
    asked = _parser().parse_args(arguments)
    if asked.threads < 1 or asked.repeat < 3:
        raise ValueError(
            f"--threads must be at least 1 and --repeat 3, got {asked.threads} and {asked.repeat}"
        )
    if asked.out and not asked.out.resolve().parent.is_dir():
        raise ValueError(f"--out {asked.out}: no such folder")

    from cnnpool.bench import machine, page, pool

    cases = pool.cases(asked.shapes, asked.only)
    machine.prepare(asked.threads)
    sys.stdout.write(page.header())
    rows = []
    for case in cases:
        rows.append(pool.measure(case, asked.repeat))
        sys.stdout.write(page.line(rows[-1]))
        sys.stdout.flush()
    results = {
        "schema": 1,
        "suite": asked.suite,
        "command": shlex.join(["cnnpool", "bench", *arguments]),
        "machine": machine.facts(),
        "rows": rows,
    }
    if asked.out:
        asked.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        sys.stdout.write(f"wrote {asked.out}\n")
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="cnnpool bench",
        description="Forward + backward of our operators against named rivals: medians of ratios, both timed "
        "in turn in one process, beside the time a copy of the bytes that must move would take.",
        epilog="examples: cnnpool bench    cnnpool bench pool --only max --shapes small --out max.json",
    )
    parser.add_argument("suite", nargs="?", default="pool", choices=SUITES, help="default: pool")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of torch (default: 1)")
    parser.add_argument("--repeat", type=int, default=15, metavar="N", help="turns per case (default: 15)")
    parser.add_argument("--shapes", choices=SIZES, default="default", help="how many (default: default)")
    parser.add_argument("--only", nargs="+", default=[], metavar="OPERATOR", help="these operators alone")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the results as JSON")
    return parser
