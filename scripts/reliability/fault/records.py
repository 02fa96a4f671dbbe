"""Files that runs left behind, damaged afterwards, or made under other circumstances."""

import json
from pathlib import Path

from scripts.reliability.fault.attempt import Fault
from scripts.reliability.fault.setting import copied, trained

B = Path("runs/b")


def with_another(change):
    """A run in ``runs/a``, and one in ``runs/b`` to which ``change`` is done."""

    def before():
        trained(folder="runs/a")
        trained("seed=1", folder="runs/b")
        change()

    return before


def altered(name, old, new):
    def change():
        path = B / name
        text = path.read_text()
        if old not in text:
            raise RuntimeError(f"{name} holds no {old!r}")
        path.write_text(text.replace(old, new, 1))

    return change


def other_threads():
    trained(folder="runs/a")
    environment = json.loads(Path("runs/a/results.json").read_text())["environment"]
    copied("b", seed=1, environment={**environment, "threads": environment["threads"] + 1, "kernels": "none"})


def told(what, change, *out):
    """A fault of one run: it is told on stdout, in one line, and the other is compared."""
    return Fault(
        what, "compare runs --no-board", (), 0, with_another(change), ("runs/report/report.html",), 0, out
    )


RECORDS = [
    told(
        "results.json cut short", altered("results.json", "checksum", '"'), "runs/b/results.json is damaged"
    ),
    told(
        "results.json nested 100,000 deep",
        lambda: (B / "results.json").write_text("[" * 100_000),
        "runs/b/results.json is damaged",
    ),
    told(
        "an accuracy of null", altered("results.json", '"accuracy": 0', '"accuracy": null, "x": 0'), "is null"
    ),
    told(
        "a number altered afterwards",
        altered("results.json", '"seed": 1,', '"seed": 2,'),
        "it was altered after it was written",
    ),
    told(
        "status.json of an unfinished run damaged",
        lambda: ((B / "results.json").unlink(), (B / "status.json").write_text("{half")),
        "runs/b/status.json is damaged",
    ),
    told(
        "a line of metrics.jsonl damaged",
        altered("metrics.jsonl", '"step"', '"ste'),
        "runs/b/metrics.jsonl is damaged: line 1 of",
    ),
    told(
        "metrics.jsonl altered afterwards",
        altered("metrics.jsonl", '"epoch": 1', '"epoch": 7'),
        "runs/b/metrics.jsonl is damaged: it was altered",
    ),
    Fault(
        "runs with other numbers of threads and other kernels",
        "compare runs --no-board",
        (),
        0,
        other_threads,
        lines=0,
        out=(
            "environment.threads differs among the runs",
            "environment.kernels differs among the runs",
            "the same seed does not give the same bits",
        ),
    ),
]
