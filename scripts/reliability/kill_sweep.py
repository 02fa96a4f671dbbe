"""Kill a small sweep at random instants, start it again, compare its results with a sweep never stopped.

usage: python scripts/reliability/kill_sweep.py [N] [LAUNCH] [SEED]

N kills (default 20) by SIGKILL of sweeps with launch=LAUNCH (default local; or processes). After each the
same command is given again, perhaps to be killed again, until all jobs are done. Prints one JSON object;
status 1 if a restart failed, a finished job was done twice, or a result differs.
"""

import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import torch

from scripts.reliability.kill_test import TRAIN, broken, contents, finish, said, start

PATIENCE_S = 60


def main(arguments: list[str]) -> int:
    kills = int(arguments[0]) if arguments else 20
    launch = arguments[1] if arguments[1:] else "local"
    chance = random.Random(int(arguments[2]) if arguments[2:] else 0)
    sweep = [*TRAIN[:1], "-m", *TRAIN[1:-1], "pool=stochastic,max", "seed=0,1", f"launch={launch}"]
    # Of jobs, not of what they measure.
    sweep += ["probe=none"]
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        begun = time.monotonic()
        if finish(began(root / "whole", sweep, launch)):
            sys.exit(f"the sweep that was never stopped failed: {said(root / 'whole')}")
        duration = time.monotonic() - begun
        found = {"launch": launch, "kills": 0, "sweeps": 0}
        found |= dict.fromkeys(("broken files", "failed restarts", "done twice", "different"), 0)
        while found["kills"] < kills:
            found["sweeps"] += 1
            killed_sweep(root / str(found["sweeps"]), root / "whole", sweep, duration, chance, kills, found)
    print(json.dumps(found))
    return int(any(list(found.values())[3:]))


def killed_sweep(
    out: Path,
    whole: Path,
    sweep: list[str],
    duration: float,
    chance: random.Random,
    kills: int,
    found: dict,
) -> None:
    """Kill a sweep in ``out`` now and then until it is done, and compare it with the one in ``whole``."""
    done: dict[Path, int] = {}
    while True:
        process = began(out, sweep, found["launch"])
        status = finish(process, duration if found["kills"] < kills else 0.0, chance)
        results = {path: path.stat().st_mtime_ns for path in out.rglob("results.json")}
        found["done twice"] += sum(results.get(path) != moment for path, moment in done.items())
        done = results
        if status == 0:
            break
        if status != -signal.SIGKILL:
            found["failed restarts"] += 1
            print(said(out), file=sys.stderr)
            return
        found["kills"] += 1
        quiet(out)
        found["broken files"] += sum(broken(path.parent) for path in out.rglob("status.json"))
    runs = sorted(path.parent.relative_to(whole) for path in whole.rglob("results.json"))
    found["different"] += sum(contents(out / run) != contents(whole / run) for run in runs)


def began(out: Path, sweep: list[str], launch: str) -> int:
    """The pid of a sweep; anew if in processes, since it forks them only where torch is not yet."""
    return start(out, sweep, anew=launch == "processes")


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
