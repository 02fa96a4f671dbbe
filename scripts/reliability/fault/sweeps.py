"""Jobs that take no sweep with them."""

import signal
import sys

from scripts.reliability.fault.attempt import GOES_ON, Fault
from scripts.reliability.fault.setting import (
    failing,
    killed_jobs,
    raised,
    signalled,
    without_network_or_proxy,
)

TWO = "-m pool=max,avg"

SWEEPS = [
    Fault(
        "a job raises",
        f"train {TWO}",
        ("avg", "RuntimeError: melted", "train.log"),
        1,
        failing(lambda: raised(RuntimeError("melted"))),
        ("outputs/*/*/max*/*/results.json",),
        out=("1 done, 1 failed",),
    ),
    Fault(
        "a job needs too much memory",
        f"train {TWO}",
        ("avg", "out of memory", "lower it"),
        1,
        failing(lambda: raised(MemoryError())),
        ("outputs/*/*/max*/*/results.json",),
        out=("1 done, 1 failed",),
    ),
    Fault(
        "no network for the data of a sweep",
        "train -m seed=0,1,2 data=mnist data.root=none",
        ("seed0 and 2 more: cannot download MNIST", "by hand"),
        before=without_network_or_proxy,
        out=("3 failed", "as above"),
    ),
    Fault(
        "a job is a mistake",
        "train -m pool=max pool.stride=2,-1",
        ("stride=-1", "pool.stride", "from 1 to", "got -1"),
        2,
        keeps=("outputs/*/*/max*/*/results.json",),
        out=("1 done, 1 failed",),
    ),
    Fault(
        "the sweep is stopped",
        f"train {TWO}",
        ("max", "by SIGTERM", GOES_ON),
        143,
        signalled(signal.SIGTERM),
        ("outputs/*/*/max*/*/checkpoints/last.ckpt",),
        out=("1 stopped, 1 not run",),
    ),
    Fault(
        "jobs' processes are killed",
        f"train {TWO} launch=processes",
        ("killed by SIGKILL (out of memory?)", "output.log"),
        1,
        killed_jobs,
        out=("2 failed",),
    ),
    Fault(
        "two jobs in one folder",
        "train -m pool=avg,sum hydra.sweep.dir=. hydra.sweep.subdir=here",
        ("folder of two jobs", "pool.name: avg -> sum", "hydra.sweep.subdir"),
    ),
    Fault(
        "SLURM without its extra",
        f"train {TWO} launch=slurm",
        ("launch=slurm", "pip install 'cnnpool[slurm]'"),
        2,
        lambda: sys.modules.update({"submitit": None}),
    ),
]
