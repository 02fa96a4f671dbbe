"""Kill a small training run at random instants, start it again, compare it with one never stopped.

usage: python scripts/reliability/kill_test.py [N] [SEED] [LAUNCH]

N kills (default 100) by SIGKILL fall at random instants of runs on the embedded digits, with random shifts,
stochastic pooling, dropout and checkpoints at every step, or of sweeps with launch=LAUNCH; each is started
again, perhaps to be killed again, until it is done. Prints one JSON object; status 1 if a file was broken, a
restart failed, steps were lost, a job was done twice, or a weight, metric, scalar or result differs by a bit.
"""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from cnnpool.run_folder.checkpoint import DamagedError, load

# Imports everything once here, not in every process, or most kills would hit an import.
from scripts.reliability.attempt import begun

TRAIN = [
    "train", "pool=stochastic", "data.limit=256", "data.batch_size=32", "data.shift=1", "model.width=4",
    "model.dropout=0.1", "readout=gap", "fit.epochs=3", "fit.precision=32-true", "fit.pictures=false",
    "fit.progress=false", "fit.log_every_steps=1", "fit.checkpoint_every_minutes=0", "hydra.run.dir=run",
]  # fmt: skip
# Of jobs, not of what they measure.
SWEEP = [*TRAIN[:1], "-m", *TRAIN[1:-1], "pool=stochastic,max", "seed=0,1", "probe=none"]
PATIENCE_S = 60
BAD = ("broken files", "steps lost", "failed restarts", "done twice", "different")
CLOCKS = ("cost", "finished", "wall_s", "environment", "content_sha256")


def main(arguments: list[str]) -> int:
    kills, seed, launch = [*arguments, *("100", "0", "")[len(arguments) :]]
    begin, unit = start, "runs"
    if launch:
        os.environ["OMP_NUM_THREADS"] = "1"
        # Anew if in processes, since it forks them only where torch is not yet.
        begin = partial(start, arguments=[*SWEEP, f"launch={launch}"], anew=launch == "processes")
        unit = "sweeps"
    torch.set_num_threads(1)
    killer = Killer(begin, int(kills), int(seed))
    with tempfile.TemporaryDirectory() as folder:
        count = killer.measure(Path(folder))
    print(json.dumps({unit: count, **killer.found}))
    return int(any(killer.found[name] for name in BAD))


class Killer:
    """Starts commands by ``begin``, kills them at random instants, and counts in ``found``."""

    def __init__(self, begin: Callable[[Path], int], kills: int, seed: int):
        self.begin, self.kills, self.chance = begin, kills, random.Random(seed)
        self.found, self.duration = dict.fromkeys(("kills", "resumed", *BAD), 0), 0.0

    def measure(self, root: Path) -> int:
        """One command that is never stopped, then others until there were enough kills: how many others."""
        count, before = 0, time.monotonic()
        if finish(self.begin(root / "whole")):
            sys.exit(f"what was never stopped failed: {said(root / 'whole')}")
        self.duration = time.monotonic() - before
        while self.found["kills"] < self.kills:
            count += 1
            self.until_done(root / str(count), root / "whole")
        return count

    def until_done(self, out: Path, whole: Path) -> None:
        """Start in ``out`` until it is done, again and again; compare its runs with those in ``whole``."""
        ended, saved = dict[Path, int](), dict[Path, int]()
        while status := self._finish(self.begin(out)):
            if status != -signal.SIGKILL:
                self.found["failed restarts"] += 1
                print(said(out), file=sys.stderr)
                return
            self.found["kills"] += 1
            quiet(out)
            self._look(out, ended, saved)
            self.found["resumed"] += any(saved.values())
        self._look(out, ended, saved)
        runs = sorted(path.parent.relative_to(whole) for path in whole.rglob("results.json"))
        self.found["different"] += sum(contents(out / run) != contents(whole / run) for run in runs)

    def _finish(self, process: int) -> int:
        """Its exit status; four times of five it is killed within the time of a whole command."""
        if self.found["kills"] < self.kills and self.chance.random() < 0.8:
            time.sleep(self.chance.random() * self.duration)
            os.kill(process, signal.SIGKILL)
        return finish(process)

    def _look(self, out: Path, ended: dict[Path, int], saved: dict[Path, int]) -> None:
        """Count what is wrong with the runs below ``out``: by run, when it ended and the steps it saved."""
        for run in [path.parent for path in out.rglob("status.json")]:
            self.found["broken files"] += broken(run)
            done, before, results = steps(run), saved.get(run, 0), run / "results.json"
            self.found["steps lost"] += max(before - done, 0)
            saved[run] = done
            moment = results.stat().st_mtime_ns if results.exists() else 0
            self.found["done twice"] += ended.get(run, 0) not in (0, moment)
            ended[run] = moment


def quiet(out: Path) -> None:
    """Wait until the jobs of a killed sweep, which the kernel asks to stop, have done so."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and any(alive(path) for path in out.rglob("status.json")):
        time.sleep(0.05)


def alive(path: Path) -> bool:
    status = json.loads(path.read_text())
    if status["state"] != "running":
        return False
    try:
        os.kill(status["pid"], 0)
    except ProcessLookupError:
        return False
    return True


def start(out: Path, arguments: Sequence[str] = TRAIN, *, anew: bool = False) -> int:
    """The pid of a process in ``out``: a fork, or a Python of its own if ``anew``."""
    out.mkdir(exist_ok=True)
    log = out / "output.log"
    if not anew:
        return begun(arguments, out, log, log)
    command = [sys.executable, "-m", "cnnpool", *arguments]
    with log.open("a") as file:
        return subprocess.Popen(command, cwd=out, stdout=file, stderr=file).pid


def finish(process: int) -> int:
    """Exit status, or minus the signal, once ``process`` has ended."""
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
    events = EventAccumulator(str(run), size_guidance={"scalars": 0}, purge_orphaned_data=False).Reload()
    drawn = {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    return (
        {key: value.numpy().tobytes() for key, value in weights.items()},
        lines,
        timeless(json.loads((run / "results.json").read_text())),
        timeless(drawn),
    )


def timeless(content: dict) -> dict:
    return {key: value for key, value in content.items() if key.partition("/")[0] not in CLOCKS}


def said(out: Path) -> str:
    return (out / "output.log").read_text()[-2000:]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
