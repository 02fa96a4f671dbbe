"""Compare an operator with itself many times, as cnnpool compare does, and count the verdicts.

usage: python scripts/reliability/same_against_same.py [COMPARISONS] [RUNS]

RUNS small networks (default 120) are trained on the embedded digits, alike but for their seeds. Each of
COMPARISONS (default 200) sets ten of them against ten others, under two names; "better" may come out in at
most 5 %, within what chance allows. Against itself, seed by seed, an operator must differ by exactly 0. With
one standard deviation added to one side, 20 pairs must find it nine times in ten. Prints one JSON object.
"""

import json
import random
import sys
import tempfile
from pathlib import Path
from statistics import stdev

from scipy.stats import binom

from cnnpool.report.comparison import compare
from cnnpool.report.runs import Run
from cnnpool.run_folder.results import Results
from scripts.reliability.attempt import QUICK, command

PAIRS, PLANTED_PAIRS = 10, 20


def main(arguments: list[str]) -> int:
    comparisons = int(arguments[0]) if arguments else 200
    with tempfile.TemporaryDirectory() as folder:
        values = [trained(Path(folder), seed) for seed in range(int(arguments[1]) if arguments[1:] else 120)]
    chance, words, planted = random.Random(0), [], []
    for _ in range(comparisons):
        drawn = chance.sample(values, 2 * PAIRS)
        words.append(verdict(drawn[:PAIRS], drawn[PAIRS:])[0])
        drawn = chance.sample(values, 2 * PLANTED_PAIRS)
        paired_sd = stdev(a - b for a, b in zip(drawn[:PLANTED_PAIRS], drawn[PLANTED_PAIRS:], strict=True))
        shifted = [value + paired_sd for value in drawn[PLANTED_PAIRS:]]
        planted.append(verdict(drawn[:PLANTED_PAIRS], shifted)[0])
    found = {
        "runs": len(values),
        "comparisons": comparisons,
        "better": words.count("better"),
        "worse": words.count("worse"),
        "most that chance allows of either": int(binom.ppf(0.999, comparisons, 0.05)),
        "difference from itself": verdict(values[:PAIRS], values[:PAIRS])[1],
        "one sd found": planted.count("better") / comparisons,
    }
    print(json.dumps(found))
    wrong = found["better"] + found["worse"] > found["most that chance allows of either"]
    return int(wrong or found["difference from itself"] != 0 or found["one sd found"] < 0.9)


def trained(folder: Path, seed: int) -> float:
    """Test accuracy of the network of ``seed``."""
    options = ["hydra.run.dir=run", "data.limit=256", "model.width=4", "fit.epochs=2", f"seed={seed}"]
    (folder / str(seed)).mkdir()
    status, _, err = command(["train", *QUICK[2:], *options], folder / str(seed))
    if status:
        sys.exit(err)
    return json.loads((folder / str(seed) / "run" / "results.json").read_text())["test"]["accuracy"]


def verdict(first: list[float], second: list[float]) -> tuple[str, float]:
    """The report's verdict on ``second`` against ``first``, and the mean difference."""
    sides = {"max": first, "other": second}
    runs = [run(name, *pair) for name, side in sides.items() for pair in enumerate(side)]
    row = compare(runs, metric="test.accuracy").rows[1]
    return row.verdict, row.versus.summary.mean


def run(name: str, seed: int, accuracy: float) -> Run:
    same = {"name": "same"}
    groups = {"pool": {"name": name}, "readout": same, "model": same, "data": same}
    measured = {"test": {"accuracy": accuracy, "loss": 0.0}}
    found = Results(**groups, seed=seed, epochs=2, deterministic=True, measured=measured)
    return Run(Path(name, str(seed)), "done", found=found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
