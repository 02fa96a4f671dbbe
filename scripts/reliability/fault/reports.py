"""Runs that cannot be compared or probed, and files that runs left behind."""

import json
from pathlib import Path

from scripts.reliability.fault.attempt import Fault
from scripts.reliability.fault.setting import (
    LAST,
    copied,
    cut_with,
    few_seeds,
    flip_bit,
    half_a_report,
    trained,
    two_kinds,
)

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


REPORTS = [
    Fault("runs that are not there", "compare none", ("none", "does not exist")),
    Fault(
        "no finished run",
        "compare here",
        ("no finished run", "--status"),
        2,
        cut_with(lambda: None),
        ("here/metrics.jsonl",),
    ),
    Fault(
        "runs that cannot be compared",
        "compare runs",
        ("data_sha256", "tell them apart"),
        2,
        two_kinds,
        ("runs/a/results.json",),
        3,
    ),
    Fault(
        "a failed run among the runs",
        "compare runs --no-board",
        (),
        0,
        half_a_report,
        lines=0,
        out=("runs/b: failed: the loss became nan",),
    ),
    Fault(
        "two seeds only",
        "compare runs --no-board",
        (),
        0,
        few_seeds,
        lines=0,
        out=("too few seeds (2, at least 3 are needed)", "Too few seeds to rank"),
    ),
    Fault(
        "a misspelt measure",
        "compare here --metric test.acuracy",
        ("test.acuracy", "did you mean"),
        2,
        trained,
        ("here/results.json",),
    ),
    Fault("a model to probe that does not exist", "probe nosuch", ("nosuch", "torchvision:NAME")),
    Fault(
        "a damaged checkpoint to probe",
        "probe here",
        ("last.ckpt", "damaged"),
        2,
        lambda: (trained(), flip_bit(LAST)),
        ("here/results.json",),
    ),
    Fault(
        "weights of another model to probe",
        "probe torchvision:resnet18 --checkpoint here/checkpoints/last.ckpt",
        ("last.ckpt does not fit",),
        2,
        trained,
        ("here/results.json",),
        None,
    ),
    told(
        "results.json cut short", altered("results.json", "checksum", '"'), "runs/b/results.json is damaged"
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
