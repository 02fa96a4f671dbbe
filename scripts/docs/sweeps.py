"""Run the sweeps behind docs/results.md, one after the other; each goes on where it was stopped.

usage: python scripts/docs/sweeps.py [NAME ...] [-- KEY=VALUE ...]

In the background, also without the terminal: nohup nice python scripts/docs/sweeps.py > sweeps.log 2>&1 &
"""

import subprocess
import sys

CIFAR = ("data.root=cifar10-jpeg",)
SWEEPS = {
    "mnist_operators": [()],
    "mnist_few": [
        ("fit.max_steps=200,1000",),
        ("fit.max_steps=5000",),
        ("data.limit=100,300,3000,10000", "fit.max_steps=200"),
    ],
    "cifar_circular": [CIFAR],
}
"""Experiment -> what else each of its commands says; the cheapest first."""


def main(words: list[str]) -> int:
    """Run the named sweeps, all of them if none is named; returns 1 if one did not end well."""
    names, _, more = " ".join(words).partition("--")
    chosen = names.split() or list(SWEEPS)
    if unknown := [name for name in chosen if name not in SWEEPS]:
        sys.exit(f"no sweep {unknown[0]!r}; choose from {', '.join(SWEEPS)}")
    status = 0
    for name in chosen:
        for options in SWEEPS[name]:
            command = ["cnnpool", "train", "-m", f"experiment={name}", *options, *more.split()]
            sys.stderr.write(f"{' '.join(command)}\n")
            status |= subprocess.run([sys.executable, "-m", *command], check=False).returncode != 0
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
