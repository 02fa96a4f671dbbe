"""Train a few choices on the embedded digits over three seeds, compare them, and say what to type next."""

import subprocess
import sys

CNNPOOL = [sys.executable, "-m", "cnnpool"]
SWEEP = ["experiment=quickstart", "pool=max,avg,strided,subsample", "readout=flatten,gap", "seed=0,1,2"]
RUNS = "outputs/quickstart/digits"
NEXT = f"""
Next:
  .venv/bin/tensorboard --logdir {RUNS}
  .venv/bin/cnnpool train data=mnist pool=max
"""


def main() -> int:
    for command in (["train", "-m", *SWEEP], ["compare", RUNS]):
        status = subprocess.run([*CNNPOOL, *command]).returncode
        if status:
            return status
    print(NEXT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
