"""Kill a small training run at random instants, start it again, compare it with one never stopped.

usage: python scripts/reliability/kill_test.py [N] [SEED]

N kills (default 100) by SIGKILL fall at random instants of runs on the embedded digits, with random shifts,
stochastic pooling, dropout and checkpoints at every step; every run is started again, perhaps to be killed
again, until it is done. Prints what was found as one line of JSON; status 1 if any file was broken, any
progress was lost, or any weight, metric, scalar of TensorBoard or result differs by a bit.
"""

import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

# Once here, not in every process, or most kills would hit an import.
import cnnpool.fit
import cnnpool.training  # noqa: F401
from cnnpool import cli
from cnnpool.run_folder.checkpoint import DamagedError, load

TRAIN = [
    "train", "pool=stochastic", "data.limit=256", "data.batch_size=32", "data.shift=1", "model.width=4",
    "model.dropout=0.1", "readout=gap", "fit.epochs=3", "fit.precision=32-true", "fit.pictures=false",
    "fit.progress=false", "fit.log_every_steps=1", "fit.checkpoint_every_minutes=0", "hydra.run.dir=run",
]  # fmt: skip
COUNTS = ("kills", "runs", "resumed", "broken files", "steps lost", "failed restarts", "different")
CLOCKS = ("cost", "finished", "wall_s", "environment", "checksum")


def main(arguments: list[str]) -> int:
    kills = int(arguments[0]) if arguments else 100
    chance = random.Random(int(arguments[1]) if len(arguments) > 1 else 0)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        begun = time.monotonic()
        if finish(start(root / "whole")):
            sys.exit(f"the run that was never stopped failed: {said(root / 'whole')}")
        duration = time.monotonic() - begun
        found = dict.fromkeys(COUNTS, 0)
        while found["kills"] < kills:
            found["runs"] += 1
            killed_run(root / str(found["runs"]), root / "whole", duration, chance, kills, found)
    print(json.dumps(found))
    return int(any(found[key] for key in COUNTS[3:]))


def killed_run(
    out: Path, whole: Path, duration: float, chance: random.Random, kills: int, found: dict[str, int]
) -> None:
    """Kill a run in ``out`` now and then until it is done, and compare it with the run in ``whole``."""
    saved = 0
    while True:
        process = start(out)
        status = finish(process, duration if found["kills"] < kills else 0.0, chance)
        if status == 0:
            break
        if status != -signal.SIGKILL:
            found["failed restarts"] += 1
            print(said(out), file=sys.stderr)
            return
        found["kills"] += 1
        found["broken files"] += broken(out / "run")
        found["steps lost"] += max(saved - steps(out / "run"), 0)
        saved = steps(out / "run")
        found["resumed"] += saved > 0
    found["different"] += contents(out / "run") != contents(whole / "run")


def start(out: Path, arguments: Sequence[str] = TRAIN, *, anew: bool = False) -> int:
    """The pid of a process in ``out``; a fork, because imports take longer than the run, or ``anew``."""
    process = os.fork()
    if process:
        return process
    try:
        out.mkdir(exist_ok=True)
        os.chdir(out)
        output = os.open("output.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if anew:
            os.execv(sys.executable, [sys.executable, "-m", "cnnpool", *arguments])
        cli.main(list(arguments))
    except SystemExit as stop:
        os._exit(stop.code or 0)
    finally:
        os._exit(99)


def finish(process: int, duration: float = 0.0, chance: random.Random | None = None) -> int:
    """Exit status, or minus the signal, once ``process`` has ended.

    With a ``duration`` it is killed at a random instant within so many seconds, four times of five.
    """
    if chance and duration and chance.random() < 0.8:
        time.sleep(chance.random() * duration)
        os.kill(process, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def broken(run: Path) -> int:
    """Files that are half of something, leaving out those that say so by their name."""
    count = 0
    for path in (*run.glob("*.json"), *run.glob("checkpoints/*.ckpt")):
        try:
            load(path) if path.suffix == ".ckpt" else json.loads(path.read_text())
        except (DamagedError, ValueError):
            count += 1
    return count


def steps(run: Path) -> int:
    path = run / "checkpoints" / "last.ckpt"
    return load(path)["cnnpool"]["steps"] if path.exists() else 0


def contents(run: Path) -> tuple:
    """Weights (as bytes), metrics, results and TensorBoard's scalars without what a clock said."""
    weights = load(run / "checkpoints" / "last.ckpt")["state_dict"]
    lines = [timeless(json.loads(line)) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return (
        {key: value.numpy().tobytes() for key, value in weights.items()},
        lines,
        timeless(json.loads((run / "results.json").read_text())),
        timeless(drawn(run)),
    )


def drawn(run: Path) -> dict[str, list[tuple[int, float]]]:
    """Tag -> (step, value) of the run's event file, one after another."""
    events = EventAccumulator(str(run), size_guidance={"scalars": 0}, purge_orphaned_data=False).Reload()
    return {
        tag: [(each.step, each.value) for each in events.Scalars(tag)] for tag in events.Tags()["scalars"]
    }


def timeless(content: dict) -> dict:
    return {key: value for key, value in content.items() if key.partition("/")[0] not in CLOCKS}


def said(out: Path) -> str:
    return (out / "output.log").read_text()[-2000:]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
