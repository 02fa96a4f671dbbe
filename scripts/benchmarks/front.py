"""The first table of docs/performance.md: what a user gains, a row each, from the results files."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from scripts.benchmarks import operators
from scripts.docs import pages

Results, Row = dict[str, Any], dict[str, Any]
Match = Callable[[Results, Row], bool]


class Line(NamedTuple):
    """A row of the table, the first in the files that matches; of a cost ``least`` is better, not most.

    ``figure`` is which of the row's is shown; None for the ratio to the rival's.
    """

    what: str
    match: Match
    least: bool = False
    figure: str | None = None


def _operator(
    name: str, layout: str = "contiguous", dtype: str = "float32", *, plain: bool = False, threads: int = 1
) -> Match:
    def match(results: Results, row: Row) -> bool:
        known = results["suite"] == "pool" and results["machine"]["threads"] == threads
        known = known and operators.is_plain(results) == plain and not operators.is_gpu(results)
        return known and operators.is_case(row, name, layout, dtype)

    return match


def _case(suite: str, begins: str, against: str = "") -> Match:
    def match(results: Results, row: Row) -> bool:
        known = results["suite"] == suite
        return known and row["case"].startswith(begins) and row["against"].startswith(against)

    return match


def _first(files: list[Results], match: Match) -> tuple[Results, Row] | None:
    return next(((one, row) for one in files for row in one["rows"] if match(one, row)), None)


def _every(files: list[Results]) -> Iterator[Results]:
    """Results of their own: every case that was timed in training on one thread of a CPU."""
    for results in files:
        if (
            results["suite"] == "pool"
            and results["machine"]["threads"] == 1
            and operators.in_training(results)
        ):
            cases = [row["speedup"]["median"] for row in results["rows"] if "speedup" in row]
            q1, middle, q3 = np.quantile(cases, (0.25, 0.5, 0.75))
            ratio = {"median": middle, "q1": q1, "q3": q3, "n": len(cases)}
            row = {"case": "", "against": "the rival of each", "ratio": ratio}
            yield {"suite": "every", "machine": results["machine"], "rows": [row]}


SHAPE = "x".join(map(str, operators.LARGE))
ROWS = "images/s, convnet, batch 128, "
LINES = (
    *(
        Line(
            f"a training of `convnet` on MNIST's size with {name} pooling",
            _case("kernels", f"{ROWS}{name}, {n}"),
        )
        for name in ("max", "max_blur")
        for n in ("1 thread", "2 threads")
    ),
    Line("every operator, map, layout and dtype of the bench: the median case", _case("every", "")),
    Line(f"max pooling 2/2 of {SHAPE}, in training", _operator("max 2/2")),
    Line("the same on two threads", _operator("max 2/2", threads=2)),
    Line("two threads beside one", _operator("max 2/2", threads=2), figure="scaling"),
    Line("the same in a plain script, on one thread", _operator("max 2/2", plain=True)),
    Line("and in a plain script, on two", _operator("max 2/2", plain=True, threads=2)),
    Line("max pooling 3/2, channels last", _operator("max 3/2", "channels_last")),
    Line("blur 3/2, channels last", _operator("blur 3/2", "channels_last")),
    Line("max_blur 2/3/2", _operator("max_blur 2/3/2")),
    Line("generalised mean, p = 3", _operator("gem p=3")),
    Line(
        "a training step of ResNet-18 with max_blur, beside the network as published",
        _case("networks", "ResNet-18, max_blur in place of its max pooling: training step", "as published"),
        least=True,
    ),
    *(
        Line(
            f"photographs, second epoch, from disk, with {network}",
            _case("images", f"{network}, second epoch, images/s: from disk"),
        )
        for network in ("mobilenet_v3_small", "no network to speak of")
    ),
    Line("a sweep of 8 small trainings", _case("sweep", "8 runs, sprint on digits, as they come")),
)


def table(files: list[Results]) -> str:
    """Markdown: every line whose figure is in ``files``."""
    files = [*files, *_every(files)]
    found = [(line, _first(files, line.match)) for line in LINES]
    # Files of earlier versions have fewer figures.
    rows = [_cells(line, *one) for line, one in found if one and (not line.figure or line.figure in one[1])]
    headers = ("what", "times as fast (quartiles, n)", "against", "limit", "threads, date, commit")
    return pages.table(headers, rows, headers[1:2]) + "\n"


def _cells(line: Line, results: Results, row: dict[str, Any]) -> tuple[str, ...]:
    figure = row[line.figure] if line.figure else row.get("speedup") or row["ratio"]
    spread = f"({figure['q1']:.3g} to {figure['q3']:.3g}, {figure['n']})"
    times = f"{figure['median']:.3g}{'' if line.least else 'x'}"
    times = f"**{times}** {spread}" if not figure["q1"] <= 1 <= figure["q3"] else f"{times} {spread}"
    machine = results["machine"]
    made = f"{_threads(results, row)}, {machine['date']}, {machine['commit']}"
    said = f"{times} of its time" if line.least else times
    against = "one thread" if line.figure else row["rival"] if "speedup" in row else row["against"]
    limit = f"{row['over_bound']['median']:.1f}" if "over_bound" in row and not line.figure else ""
    return line.what, said, against, limit, made


def singles(files: list[Results]) -> str:
    """The time of single calls of max pooling in a plain script, on one thread and on two."""
    said = []
    for threads in (1, 2):
        found = _first(files, _operator("max 2/2", plain=True, threads=threads))
        if not found or "single" not in found[1]:
            continue
        parts = []
        for name, one in found[1]["single"].items():
            who = "ours" if name == "ours" else found[1]["rival"]
            faults = f", {one['page_faults']:,.0f} page faults" if "page_faults" in one else ""
            parts.append(f"{who} {one['median_ms']:.1f} ms (90th percentile {one['p90_ms']:.1f}){faults}")
        said.append(f"on {threads} thread{'s' * (threads > 1)}: {'; '.join(parts)}")
    text = f"A single call of max pooling 2/2 of {SHAPE} in a plain script, {'; '.join(said)}.\n\n"
    return text if said else ""


def _threads(results: Results, row: dict[str, Any]) -> int:
    """Of a suite that measures on several numbers of them, those that the row names."""
    return 1 if row.get("case", "").endswith(", 1 thread") else results["machine"]["threads"]
