"""Run the sweeps behind docs/results.md, one after the other; each goes on where it was stopped.

usage: python scripts/docs/sweeps.py [NAME ...] [-- KEY=VALUE ...]

In the background, also without the terminal: nohup nice python scripts/docs/sweeps.py > sweeps.log 2>&1 &
"""

import subprocess
import sys

CIFAR = ("data.root=cifar10-jpeg",)
SWEEPS = {
    "mnist_few": (),
    "cifar_plain": CIFAR,
    "cifar_circular": CIFAR,
    "cifar_operators": CIFAR,
}
"""Experiment -> what else its command line says; the cheapest first."""


def main(words: list[str]) -> int:
    """Run the named sweeps, all of them if none is named; returns 1 if one did not end well."""
    names, _, more = " ".join(words).partition("--")
    chosen = names.split() or list(SWEEPS)
    if unknown := [name for name in chosen if name not in SWEEPS]:
        sys.exit(f"no sweep {unknown[0]!r}; choose from {', '.join(SWEEPS)}")
    status = 0
    for name in chosen:
        command = ["cnnpool", "train", "-m", f"experiment={name}", *SWEEPS[name], *more.split()]
        sys.stderr.write(f"{' '.join(command)}\n")
        status |= subprocess.run([sys.executable, "-m", *command], check=False).returncode != 0
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
