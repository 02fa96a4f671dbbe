"""``cnnpool bench``: cnnpool's operators and named rivals, timed alternately in one process."""

import argparse
import json
import os
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cnnpool import tables
from cnnpool.cli_parser import Parser
from cnnpool.system.atomic import write_text
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
Row = dict[str, Any]
WIDTHS, WORDS = (14, 16, 13, 8, 8, 8, 6, 11, 7, 10, 11, 8), {0, 1, 2, 3, 7}
NAMES = ("operator", "shape", "layout", "dtype", "ours ms", "rival ms", "faster", "quartiles", "bound")


def main(arguments: list[str]) -> int:
    """Run ``cnnpool bench [SUITE]``; returns the exit status. Mistakes are a ValueError of one line."""
    args = parser().parse_args(arguments)
    for key, value, least in (("--threads", args.threads, 1), ("--repeat", args.repeat, 3)):
        if value is not None and value < least:
            raise ValueError(f"--threads must be at least 1 and --repeat 3, got {key} {value}")
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


def _rows(args: argparse.Namespace, device: "torch.device") -> Iterator[tuple[Row, str]]:
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
    found = Parser("cnnpool bench", DESCRIPTION, EXAMPLES)
    add = found.add_argument
    add("suite", nargs="?", default="pool", choices=SUITES, help="default: pool")
    add("--threads", type=int, metavar="N", help="torch's threads (default: 1; with --plain torch's default)")
    add("--repeat", type=int, default=15, metavar="N", help="turns per case (default: 15)")
    add("--device", default="cpu", metavar="NAME", help="cpu, cuda or cuda:N (default: cpu)")
    rival = "the rival as it is (default), or compiled by torch.compile"
    add("--rival", choices=("eager", "compile"), default="eager", help=rival)
    plain = "time a script that sets nothing; the default is training, which keeps freed memory "
    plain += "(cnnpool.keep_memory) and lets idle threads sleep (GOMP_SPINCOUNT)"
    add("--plain", action="store_true", help=plain)
    add("--shapes", choices=SIZES, default="default", help="how many shapes (default: default)")
    add("--only", nargs="+", default=[], metavar="OPERATOR", help="these operators alone")
    add("--out", type=Path, metavar="FILE", help="write the results as JSON")
    return found


def check_out(out: Path | None) -> None:
    """Raise ValueError if ``out`` cannot become a results file."""
    if out and not Path(os.path.realpath(out)).parent.is_dir():
        raise ValueError(f"--out {out}: no such folder")
    if out and out.exists() and not out.is_file():
        raise ValueError(f"--out {out}: not a file that the results could replace")


def record(
    rows: Iterable[tuple[Row, str]], suite: str, command: str, device: "torch.device", out: Path | None
) -> None:
    """Print the line of each of ``rows``, and write the rows to ``out`` as JSON as they are measured."""
    from cnnpool.bench import measure

    kept = []
    for row, text in rows:
        kept.append(row)
        sys.stdout.write(text)
        sys.stdout.flush()
        if out:
            head = {"schema": 1, "suite": suite, "command": command}
            results = {**head, "machine": measure.facts(device), "rows": kept}
            try:
                write_text(Path(os.path.realpath(out)), json.dumps(results, indent=1) + "\n")
            except OSError as error:
                raise ValueError(f"--out {out}: {error.strerror}") from None
    if out:
        sys.stdout.write(f"wrote {out}\n")


def header(gpu: bool = False) -> str:
    return tables.line((*NAMES, "kept", "rival keeps", "replayed" * gpu), WIDTHS, WORDS)


def line(row: Row) -> str:
    case = (row["operator"], shape(row), row["layout"], row["dtype"])
    if "missing" in row:
        return f"{row['operator']}: not measured: {row['missing']}\n"
    speed, ms = row["speedup"], row["ms"]
    again = row.get("replayed")
    figures = (
        f"{ms['ours']:.3f}",
        f"{ms['rival']:.3f}",
        f"{speed['median']:.2f}x",
        f"[{speed['q1']:.2f} {speed['q3']:.2f}]",
        f"{row['over_bound']['median']:.1f}x",
        *(count(row, who) for who in ("ours", "rival")),
        f"{again['speedup']['median']:.2f}x" if again else "-" * ("replayed" in row),
    )
    return tables.line((*case, *figures), WIDTHS, WORDS)


def shape(row: Row) -> str:
    return "x".join(map(str, row["shape"]))


def count(row: Row, who: str) -> str:
    kept = row["kept"][who]
    for unit, size in (("MB", 1e6), ("kB", 1e3)):
        if kept >= size:
            return f"{kept / size:.1f} {unit}"
    return f"{kept} B"
