"""Many runs: the time and the memory of what reads them all, as their number grows."""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cnnpool.run_folder import layout, results
from cnnpool.run_folder.correct import packed
from cnnpool.run_folder.results import Results
from scripts.benchmarks.spent import spent

POOLS = ("max", "avg", "subsample", "blur", "max_blur", "strided", "lp", "soft", "gem", "aps")
RUNS = (100, 300, 1000, 3000, 10000)
TRAIN = ["-m", "cnnpool", "train", "-m", "fit=smoke", "fit.pictures=false", "data.limit=300"]
TAB = """
import sys
import warnings

from tensorboard.plugins.base_plugin import TBContext
from werkzeug.test import Client

from cnnpool.tensorboard.loader import Loader

apps = Loader().load(TBContext(logdir=sys.argv[1])).get_plugin_apps()
answer = Client(apps["/comparison"]).get("/comparison")
sys.exit(answer.status_code != 200)
"""
"""TensorBoard's tab when it is opened: it reads all runs and compares them."""
LOGGED, EPOCHS = "a run and its event file", (1, 4, 16, 64)
COMPARE, OPENED, FINISHED = "cnnpool compare", "the tab Downsampling", "the same sweep again"


def rows(counts: tuple[int, ...] = RUNS) -> Iterator[dict[str, Any]]:
    """Seconds and the most memory of three commands over 100 to 10,000 runs of ten choices.

    The runs are copies of one real run of each choice, with seeds, accuracies and right answers of their own.
    The sweep that is asked for again composes every job and finds that each is finished.
    """
    with tempfile.TemporaryDirectory() as folder:
        pools = f"pool={','.join(POOLS)}"
        spent([*TRAIN, pools], Path(folder))
        for count in counts:
            seeds = count // len(POOLS)
            multiply(Path(folder), seeds)
            commands = {
                COMPARE: ["-m", "cnnpool", "compare", "outputs", "--out", "report"],
                OPENED: ["-c", TAB, "outputs"],
                FINISHED: [*TRAIN, pools, f"seed=range(0,{seeds})"],
            }
            for name, command in commands.items():
                seconds, memory = spent(command, Path(folder))
                yield {"operator": name, "axis": "runs", "value": count, "seconds": seconds, "kept": memory}


def epochs() -> Iterator[dict[str, Any]]:
    """Seconds of a run and bytes of its event file, of 1 to 64 epochs with the default probes."""
    with tempfile.TemporaryDirectory() as folder:
        trained = ",".join(map(str, EPOCHS))
        command = ["-m", "cnnpool", "train", "-m", "data.limit=300", f"fit.epochs={trained}"]
        spent(command, Path(folder))
        for path in Path(folder).rglob(layout.RESULTS):
            run = results.read(path.parent)
            assert run is not None
            size = sum(file.stat().st_size for file in path.parent.glob("events.*"))
            wall = run.measured["cost"]["wall_s"]
            yield {"operator": LOGGED, "axis": "epochs", "value": run.epochs, "seconds": wall, "kept": size}


def multiply(folder: Path, seeds: int) -> None:
    """Copy the run of seed 0 of every choice below ``folder`` for all seeds below ``seeds``."""
    for first in sorted(folder.rglob(f"seed0/{layout.RESULTS}")):
        run = results.read(first.parent)
        assert run is not None
        for seed in range(1, seeds):
            made = first.parent.with_name(f"seed{seed}")
            if not made.exists():
                kept = shutil.ignore_patterns("events.*", layout.CHECKPOINTS, layout.RESULTS)
                shutil.copytree(first.parent, made, ignore=kept)
                results.write(made, _other_seed(run, seed))


def _other_seed(run: Results, seed: int) -> Results:
    """Results as of another seed: right answers and the accuracy are drawn, all else is kept."""
    assert run.correct is not None
    correct = np.random.default_rng(seed).random(run.correct["images"]) < 0.9
    test = {**run.measured["test"], "accuracy": float(correct.mean())}
    return replace(
        run,
        seed=seed,
        run=run.run.replace("seed0", f"seed{seed}"),
        asked=run.asked | {"seed": seed},
        correct=packed(correct),
        measured=run.measured | {"test": test},
    )
