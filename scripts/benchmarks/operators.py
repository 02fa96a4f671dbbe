"""docs/performance_operators.md: one table of the operators, from the results of ``cnnpool bench pool``."""

from itertools import product
from statistics import median
from typing import Any

from cnnpool import tables
from cnnpool.bench import count, shape

Results, Row = dict[str, Any], dict[str, Any]
LARGE = [128, 64, 32, 32]
"""The map of the table."""
CASES = list(product(("contiguous", "channels_last"), ("float32", "bfloat16")))
INTRODUCTION = f"""\
# How fast is each operator?

How many times as fast as its rival one forward and backward pass of a map of {"x".join(map(str, LARGE))}
is, in training on a CPU (*1 thread / 2 threads*): the median of the ratios of times that are taken in turn
in one process, of the first of the files below that has it. In brackets: our time as a multiple of the limit,
a copy of the bytes that must move. Kept: bytes that autograd keeps for the backward pass beyond the input, in
float32. [performance.md](performance.md) sums up, [gpu.md](gpu.md) has a GPU.

"""
READ = """
## The results files

Written by `cnnpool bench pool --out FILE`, with every map, layout and dtype, the quartiles, and the limit.
*Plain script*: freed memory goes back to the system, as it does without
`cnnpool.keep_memory()`. Small maps go to torch's own maximum and average (`cnnpool/pool/dispatch.py` has the
sizes), where calling a kernel would take longer than its work. `python scripts/docs/performance.py` writes
this page.

"""


def document(files: dict[str, Results]) -> str:
    """docs/performance_operators.md, from results files of the suite ``pool`` by name."""
    like = list(filter(in_training, files.values()))
    threads = sorted({one["machine"]["threads"] for one in like})
    groups = [[one for one in like if one["machine"]["threads"] == n] for n in threads]
    operators = dict.fromkeys(row["operator"] for one in like for row in one["rows"])
    headers = ("operator", "against", *(f"{layout} {dtype}".replace("_", " ") for layout, dtype in CASES))
    lines = []
    for name in operators:
        known = next(filter(None, (_find(group, name, *CASES[0]) for group in groups)), None)
        if known:
            found = [[_find(group, name, *case) for group in groups] for case in CASES]
            cells = [" / ".join(map(_cell, one)) for one in found]
            lines.append((name, known["rival"], *cells, count(known, "ours"), count(known, "rival")))
    headers = (*headers, "kept", "rival keeps")
    table = tables.markdown(tables.from_rows(headers, lines, numbers=headers[2:]))
    return INTRODUCTION + table + "\n" + READ + "".join(_file(name, one) for name, one in files.items())


def _find(files: list[Results], *case: str) -> Row | None:
    return next((row for results in files for row in results["rows"] if is_case(row, *case)), None)


def _cell(row: Row | None) -> str:
    return f"{row['speedup']['median']:.1f}x ({row['over_bound']['median']:.1f})" if row else "–"


def _file(name: str, results: Results) -> str:
    """A file's line: machine and command, the median of all cases, and how many are slower."""
    machine = results["machine"]
    rows = [row for row in results["rows"] if "speedup" in row]
    slower = [row for row in rows if row["speedup"]["q3"] < 1]
    said = f"{machine['threads']} thread{'s' * (machine['threads'] > 1)}, {machine['processor']}"
    said += f", against {runtime(results)}" if runtime(results) else ", plain script" * is_plain(results)
    text = (
        f"- [{name}](bench/{name}): {said}; `{results['command']}`, {machine['date']}, commit "
        f"{machine['commit'][:7]}, torch {machine['torch']}. Median of {len(rows)} cases: "
        f"{median(row['speedup']['median'] for row in rows):.1f}x"
    )
    if not slower:
        return f"{text}; none takes longer than the rival.\n"
    worst = min(slower, key=lambda row: row["speedup"]["median"])
    most = max(1e3 * (row["ms"]["ours"] - row["ms"]["rival"]) for row in slower)
    where = f"{worst['operator']} on {shape(worst)}, {worst['layout']}, {worst['dtype']}"
    least = f"down to {worst['speedup']['median']:.2f}x ({where})"
    return f"{text}; {len(slower)} take longer, by at most {most:.3g} us, {least}.\n"


def is_plain(results: Results) -> bool:
    """Whether ``cnnpool bench --plain`` wrote these results."""
    return bool(results["rows"][0].get("plain"))


def in_training(results: Results) -> bool:
    """Whether they are of rivals as they are, in training on a CPU."""
    return not (is_plain(results) or runtime(results) or is_gpu(results))


def is_gpu(results: Results) -> bool:
    return "gpu" in results["machine"]


def runtime(results: Results) -> str:
    """The compiler of all rivals, if they have one."""
    return "torch.compile" * all(row["rival"].endswith("torch.compile") for row in results["rows"])


def is_case(row: Row, *case: str) -> bool:
    """Whether this operator, layout and dtype was timed there on a map of ``LARGE``."""
    named = row.get("operator"), row.get("layout"), row.get("dtype"), row.get("shape")
    return named == (*case, LARGE) and "speedup" in row
