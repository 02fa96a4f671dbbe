"""The ways to run jobs, by name: the choices of ``launch``."""

from collections.abc import Callable, Iterator

from cnnpool.launch.job import Outcome
from cnnpool.launch.run_job import run_here
from cnnpool.launch.run_processes import run_processes
from cnnpool.launch.run_ray import run_ray
from cnnpool.launch.run_slurm import run_slurm

Runner = Callable[..., Iterator[Outcome]]
"""Takes jobs and yields outcomes as they end; keyword-only parameters are the options of ``launch``.

A signal is raised inside as ``Stopped``: a runner forwards it to the running jobs, waits for them, and
raises it again.
"""
RUNNERS: dict[str, Runner] = {
    "local": run_here,
    "processes": run_processes,
    "slurm": run_slurm,
    "ray": run_ray,
}
