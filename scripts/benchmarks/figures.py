"""Rows of the suites that measure whole runs: in the terminal, and as a table of the documentation."""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple, TypeVar

from cnnpool import tables
from cnnpool.bench.measure import ratio
from scripts.docs.pages import table as markdown

T = TypeVar("T")

TITLES = {
    "kernels": "Training with our kernels and without",
    "train": "Training",
    "images": "Folders of photographs",
    "memory": "More photographs than memory holds",
    "networks": "Filters in published networks",
    "start": "From the command to an answer",
    "sweep": "Sweeps",
}
READ = {
    "kernels": "Steps of a loop that does nothing else, on one batch of noise, our operator on both sides: "
    "computed by our compiled kernels, or by torch's operators (`CNNPOOL_KERNELS=0`). In ResNet-18 it is in "
    "place of the one max pooling.",
    "train": "A run is timed by Lightning, with all that it writes; the bare loop has the same network, "
    "images and arithmetic, and so does the Lightning module of thirty lines.",
    "images": "JPEG files of 375x500 are brought to 256 pixels, of which a random 224 are trained on, with "
    "the same network and arithmetic on both sides. Our first epoch begins with decoding the whole folder "
    "and keeping it on disk, which is counted. The other side decodes in a worker process for each core "
    "while the network trains; with one thread the network leaves a core to these. "
    "Waiting is the share of the second epoch in which no batch was at hand.",
    "memory": "JPEG files of 224x224, read from disk (`data.stream=true`) in batches of 16, 20 steps and all "
    "that a run measures, with max_blur in the network. The peak is that of the whole process, with its "
    "libraries; the other side is the pixels that it does not hold. 600 files are different, the others "
    "further names of them, read and decoded like files of their own.",
    "networks": "A training step is forward and backward of a batch of 8 at 224 pixels, channels last, "
    "without the optimiser. timm's filters stand where ours do, after the same convolutions. A strided "
    "convolution that becomes one of stride 1 and a filter costs more by itself, on both sides. Peak memory "
    "is that of a fresh process, above the network and the batch.",
    "start": "Seconds to the end of a process, or until it has written its first step.",
    "sweep": "The bound is the time that one process on one core takes for the sweep, divided by the "
    "cores: several processes gain what one loses when it shares its cores within a small "
    "training, and no more.",
}
"""How to read a suite's table."""
WIDTHS, WORDS = (44, 10, 10, 7, 7, 15, 12), {0, 3, 5, 6}


class Wanted(NamedTuple):
    """A target: the least, or the ``most``, of our own figure if that has a ``unit``, else of the ratio."""

    limit: float
    most: bool = False
    unit: str = ""

    def __str__(self) -> str:
        return f"at {'most' if self.most else 'least'} {self.limit:g} {self.unit}".rstrip()

    def reached(self, ours: float, ratio: float) -> bool:
        """Whether the target is met, by our own figure and its median ratio to the rival's."""
        figure = ours if self.unit else ratio
        return figure <= self.limit if self.most else figure >= self.limit


def row(
    case: str,
    unit: str,
    ours: Sequence[float],
    rival: Sequence[float],
    against: str,
    wanted: Wanted | None = None,
    ratios: dict[str, float] | None = None,
) -> dict[str, Any]:
    """Our median over turns beside a rival's, with their ratio turn by turn, or ``ratios`` in its place."""
    mine, ratios = median(ours), ratios or ratio(ours, rival)
    figures = {"ours": mine, "rival": median(rival), "unit": unit, "ratio": ratios}
    target = {"wanted": str(wanted), "reached": wanted.reached(mine, ratios["median"])} if wanted else {}
    return {"case": case, "against": against, **figures, **target}


def header() -> str:
    return tables.line(("case", "ours", "rival", "unit", "ratio", "quartiles, n", "wanted"), WIDTHS, WORDS)


def line(row: dict[str, Any]) -> str:
    """One row in the terminal."""
    ratio = row["ratio"]
    spread = f"[{ratio['q1']:.2f} {ratio['q3']:.2f}] {ratio['n']}"
    figures = (f"{row['ours']:.4g}", f"{row['rival']:.4g}", row["unit"], f"{ratio['median']:.3f}")
    return tables.line((row["case"], *figures, spread, _target(row)), WIDTHS, WORDS)


def table(rows: list[dict[str, Any]]) -> str:
    """All rows as Markdown."""
    headers = ("what", "ours", "against", "unit", "ratio (quartiles, n)", "wanted")
    return markdown(headers, list(map(_cells, rows)), headers[1:3]) + "\n"


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    ratio, rival = row["ratio"], f"{row['rival']:.4g} ({row['against']})"
    spread = f"**{ratio['median']:.3g}** ({ratio['q1']:.3g} to {ratio['q3']:.3g}, {ratio['n']})"
    return row["case"], f"{row['ours']:.4g}", rival, row["unit"], spread, _target(row)


def _target(row: dict[str, Any]) -> str:
    if "wanted" not in row:
        return ""
    return row["wanted"] + (", reached" if row["reached"] else ", **missed**")


def section(results: dict[str, Any]) -> str:
    """One results file as a section of docs/performance.md."""
    suite, machine = results["suite"], results["machine"]
    # The parts of a whole are for who reads the file.
    rows = [row for row in results["rows"] if not row["case"].endswith(" alone")]
    setting = (
        f"`{results['command']}`, {machine['date']}, commit {machine['commit']}; {machine['processor']}, "
        f"{machine['cores']} cores, {machine['threads']} thread{'s' * (machine['threads'] > 1)}, torch "
        f"{machine['torch']}, load average {machine['load']} at the end.\n"
    )
    return f"## {TITLES[suite]}\n\n{setting}\n{READ[suite]}\n\n{table(rows)}"


def in_turn(speeds: dict[str, Callable[[], T]], repeat: int) -> dict[str, list[T]]:
    """The values of each of ``speeds``, ``repeat`` times, one after the other and back again."""
    said: dict[str, list[T]] = {name: [] for name in speeds}
    for turn in range(-1, repeat):
        for name in list(speeds)[:: 1 if turn % 2 else -1]:
            speed = speeds[name]()
            # The first turn warms up: it compiles kernels, reads files and grows the heap.
            if turn >= 0:
                said[name].append(speed)
    return said
