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
COUNTS = ("kills", "runs", "resumed", "broken files", "steps lost", "failed restarts", "different")
CLOCKS = ("cost", "finished", "wall_s", "environment", "content_sha256")


def main(arguments: list[str]) -> int:
    kills, seed, launch = [*arguments, *("100", "0", "")[len(arguments) :]]
    found = dict.fromkeys(COUNTS, 0)
    if launch:
        os.environ["OMP_NUM_THREADS"] = "1"
        found = {"launch": launch, "kills": 0, "sweeps": 0}
        found |= dict.fromkeys(("broken files", "failed restarts", "done twice", "different"), 0)
        # Anew if in processes, since it forks them only where torch is not yet.
        begin = partial(start, arguments=[*SWEEP, f"launch={launch}"], anew=launch == "processes")
        Killer(begin, int(kills), int(seed), found).measure("sweeps", killed_sweep)
    else:
        Killer(start, int(kills), int(seed), found).measure("runs", killed_run)
    return int(any(list(found.values())[3:]))


class Killer:
    """Starts commands by ``begin``, kills them at random instants, and counts in ``found``."""

    def __init__(self, begin: Callable[[Path], int], kills: int, seed: int, found: dict):
        self.begin, self.kills, self.chance, self.found = begin, kills, random.Random(seed), found
        self.duration = 0.0

    def measure(self, unit: str, tried: Callable[["Killer", Path, Path], None]) -> None:
        """One command that is never stopped, then ``tried`` on others until there were enough kills."""
        torch.set_num_threads(1)
        with tempfile.TemporaryDirectory() as folder:
            root, begun = Path(folder), time.monotonic()
            if finish(self.begin(root / "whole")):
                sys.exit(f"what was never stopped failed: {said(root / 'whole')}")
            self.duration = time.monotonic() - begun
            while self.found["kills"] < self.kills:
                self.found[unit] += 1
                tried(self, root / str(self.found[unit]), root / "whole")
        print(json.dumps(self.found))

    def until_done(self, out: Path, killed: Callable[[], None]) -> bool:
        """Start in ``out`` again and again until it is done; False if a start fails by itself."""
        while status := self._finish(self.begin(out)):
            if status != -signal.SIGKILL:
                self.found["failed restarts"] += 1
                print(said(out), file=sys.stderr)
                return False
            self.found["kills"] += 1
            killed()
        return True

    def _finish(self, process: int) -> int:
        """Its exit status; four times of five it is killed within the time of a whole command."""
        if self.found["kills"] < self.kills and self.chance.random() < 0.8:
            time.sleep(self.chance.random() * self.duration)
            os.kill(process, signal.SIGKILL)
        return finish(process)


def killed_run(killer: Killer, out: Path, whole: Path) -> None:
    """Kill a run in ``out`` now and then until it is done, and compare it with the run in ``whole``."""
    found, saved = killer.found, [0]

    def killed() -> None:
        found["broken files"] += broken(out / "run")
        saved.append(steps(out / "run"))
        found["steps lost"] += max(saved[-2] - saved[-1], 0)
        found["resumed"] += saved[-1] > 0

    if killer.until_done(out, killed):
        found["different"] += contents(out / "run") != contents(whole / "run")


def killed_sweep(killer: Killer, out: Path, whole: Path) -> None:
    """Kill a sweep in ``out`` now and then until it is done, and compare it with the one in ``whole``."""
    found, done = killer.found, dict[Path, int]()

    def count_again() -> None:
        results = {path: path.stat().st_mtime_ns for path in out.rglob("results.json")}
        found["done twice"] += sum(results.get(path) != moment for path, moment in done.items())
        done.update(results)

    def killed() -> None:
        count_again()
        quiet(out)
        found["broken files"] += sum(broken(path.parent) for path in out.rglob("status.json"))

    if killer.until_done(out, killed):
        count_again()
        runs = sorted(path.parent.relative_to(whole) for path in whole.rglob("results.json"))
        found["different"] += sum(contents(out / run) != contents(whole / run) for run in runs)


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
