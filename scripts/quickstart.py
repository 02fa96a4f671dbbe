"""Train eight choices on the embedded digits over three seeds, compare them, and say what to type next.

usage: python scripts/quickstart.py [OVERRIDES]       e.g. fit.epochs=2 seed=0 for a shorter look
"""

import os
import subprocess
import sys

CNNPOOL = [sys.executable, "-m", "cnnpool"]
SWEEP = ["experiment=quickstart"]
RUNS = "outputs/quickstart/digits"
NEXT = f"""
Next:
  .venv/bin/tensorboard --logdir {RUNS}/convnet
  .venv/bin/cnnpool train data=mnist pool=max
"""


def main(overrides: list[str]) -> int:
    """Run the sweep and the comparison; the exit status of the first that fails, else 0."""
    if {"-h", "--help"} & set(overrides):
        print(__doc__)
        return 0
    # Nets this small gain nothing from more threads, and lose much where another process is busy.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for command in (["train", "-m", *SWEEP, *overrides], ["compare", RUNS]):
        status = run(command)
        if status:
            return status
    print(NEXT)
    return 0


def run(command: list[str]) -> int:
    """The exit status of ``cnnpool`` with ``command``; after Ctrl-C, which it answers itself, as well."""
    with subprocess.Popen([*CNNPOOL, *command]) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
