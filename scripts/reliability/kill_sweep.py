"""Kill a small sweep at random instants, start it again, compare its results with a sweep never stopped.

usage: python scripts/reliability/kill_sweep.py [N] [LAUNCH] [SEED]

N kills (default 20) by SIGKILL of sweeps with launch=LAUNCH (default local; or processes). After each the
same command is given again, perhaps to be killed again, until all jobs are done. Prints one JSON object;
status 1 if a restart failed, a finished job was done twice, or a result differs.
"""

import json
import os
import sys
import time
from functools import partial
from pathlib import Path

from scripts.reliability.kill_test import TRAIN, Killer, broken, contents, start

PATIENCE_S = 60


def main(arguments: list[str]) -> int:
    kills, launch, seed = [*arguments, *("20", "local", "0")[len(arguments) :]]
    # Of jobs, not of what they measure.
    sweep = [*TRAIN[:1], "-m", *TRAIN[1:-1], "pool=stochastic,max", "seed=0,1", "probe=none"]
    os.environ["OMP_NUM_THREADS"] = "1"
    found = {"launch": launch, "kills": 0, "sweeps": 0}
    found |= dict.fromkeys(("broken files", "failed restarts", "done twice", "different"), 0)
    # Anew if in processes, since it forks them only where torch is not yet.
    begin = partial(start, arguments=[*sweep, f"launch={launch}"], anew=launch == "processes")
    Killer(begin, int(kills), int(seed), found).measure("sweeps", killed_sweep)
    return int(any(list(found.values())[3:]))


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
