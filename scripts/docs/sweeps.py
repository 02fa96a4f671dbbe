"""Run the sweeps behind docs/results.md, one after the other; each goes on where it was stopped.

usage: python scripts/docs/sweeps.py [NAME ...] [-- KEY=VALUE ...]

In the background, also without the terminal: nohup nice python scripts/docs/sweeps.py > sweeps.log 2>&1 &
"""

import subprocess
import sys

CIFAR = ("data.root=cifar10-jpeg",)
RATES = {"0.03": "blur,conv_blur", "0.06": "conv_pool,strided", "0.12": "aps,avg,max,max_blur,subsample"}
SWEEPS = {
    "mnist_few": [("probe=none",)],
    "mnist_operators": [()],
    "cifar_plain": [CIFAR],
    "cifar_circular": [CIFAR],
    "cifar_operators": [(*CIFAR, f"fit.lr={rate}", f"pool={pools}") for rate, pools in RATES.items()],
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
