"""Train a few choices on the embedded digits over ten seeds, compare them, and say what to type next.

usage: python scripts/quickstart.py [OVERRIDES]       e.g. seed=0,1,2 for a shorter look
"""

import os
import shlex
import sys
from contextlib import redirect_stdout
from typing import Any, TextIO

EXPERIMENT = "experiment=quickstart"
RUNS = "outputs/quickstart/digits"
COMPARE = ["compare", RUNS, "--baseline", "max"]


class WithoutNext:
    """A stream without the commands to type next, since the next one follows by itself."""

    def __init__(self, stream: TextIO):
        self.stream = stream

    def write(self, text: str) -> int:
        return self.stream.write(text.partition("next:")[0])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def main(overrides: list[str]) -> int:
    """Run the sweep and the comparison; the exit status of the first that fails, else 0."""
    if {"-h", "--help"} & set(overrides):
        print(__doc__)
        return 0
    # Nets this small gain nothing from more threads, and lose much where another process is busy.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from cnnpool.cli import main as cnnpool

    for command in (["train", "-m", EXPERIMENT, *overrides], COMPARE):
        print(f"$ cnnpool {shlex.join(command)}", flush=True)
        stream: Any = sys.stdout if command is COMPARE else WithoutNext(sys.stdout)
        try:
            with redirect_stdout(stream):
                cnnpool(command)
        except SystemExit as end:
            if end.code:
                return int(end.code)
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
