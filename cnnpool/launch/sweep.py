"""The jobs of one command, here or in processes of their own, and the table of what became of them."""

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le

from cnnpool import registry, tables
from cnnpool.launch.job import Job, Outcome
from cnnpool.launch.run_here import run
from cnnpool.launch.run_processes import run_processes
from cnnpool.launch.run_ray import run_on_ray
from cnnpool.system.signals import Signals, Stopped

Workers = Annotated[int, Ge(1), Le(1024)]


@dataclass(frozen=True, kw_only=True)
class Launch:
    """Where the jobs of a sweep run: the options of ``conf/launch``.

    Args:
        name: local (one after the other, here), processes (each in its own, several at once) or ray.
        jobs: at once, >= 1; null: one per core. Ray decides for itself.
        threads: of each job, >= 1; null: the cores divided by the jobs; with Ray one.
        address: of the Ray cluster; null: its environment's, or one for the sweep alone.
        gpus: that a job reserves of Ray, >= 0.

    Raises:
        ValueError: if a number is out of range.
    """

    name: Literal["local", "processes", "ray"] = "local"
    jobs: Workers | None = None
    threads: Workers | None = None
    address: str | None = None
    gpus: Annotated[float, Ge(0), Le(1024)] = 0

    def __post_init__(self) -> None:
        registry.check_fields(self, "launch")


def run_all(jobs: Sequence[Job], arguments: Sequence[str]) -> int:
    """Run every job, say how each ended, and return the exit status of the command.

    Raises:
        ValueError: if the options of ``launch`` are out of range.
    """
    outcomes: list[Outcome] = []
    status = 0
    with Signals():
        try:
            for outcome in _outcomes(jobs, arguments):
                outcomes.append(outcome)
                if outcome.state == "stopped":
                    status = outcome.status
                    break
        except Stopped as stop:
            status = stop.status
    told = {outcome.log.parent for outcome in outcomes}
    rest = [job for job in jobs if job.folder not in told]
    return conclude([*outcomes, *(Outcome(job.name, "not run", "", 1, job.folder) for job in rest)], status)


def _outcomes(jobs: Sequence[Job], arguments: Sequence[str]) -> Iterator[Outcome]:
    launch = launch_of(jobs)
    if launch.name == "ray":
        return run_on_ray(jobs, launch.address, launch.threads or 1, launch.gpus)
    if launch.name == "processes" and len(jobs) > 1:
        return run_processes(jobs, arguments, *shares(launch, len(jobs)))
    return map(run, jobs)


def launch_of(jobs: Sequence[Job]) -> Launch:
    """How the sweep's first valid job wants them to be run."""
    settings = next((job.settings for job in jobs if job.settings), {})
    launch = Launch(**registry.check(Launch, "launch", settings.get("launch", {}), "launch"))
    if len(jobs) > 1 and launch.name == "local" and settings.get("fit", {}).get("devices", 1) != 1:
        # Lightning starts a training's other processes by the command line, which must be the job's own.
        return Launch(name="processes", jobs=1)
    return launch


def shares(launch: Launch, jobs: int) -> tuple[int, int]:
    """(jobs at once, threads of each) on this machine's cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    at_once = min(launch.jobs or cores, jobs)
    return at_once, launch.threads or max(cores // at_once, 1)


def conclude(outcomes: Sequence[Outcome], status: int = 0) -> int:
    """Say how a command's jobs ended; 0 if all are done, 2 if only mistakes are in the way, else 1."""
    sweep = len(outcomes) > 1
    if sweep:
        rows = [(outcome.run, outcome.state, outcome.said) for outcome in outcomes]
        sys.stdout.write(tables.text(tables.from_rows(("", "", ""), rows)))
        counts = Counter(outcome.state for outcome in outcomes)
        sys.stdout.write(
            f"{len(outcomes)} jobs: {', '.join(f'{n} {state}' for state, n in counts.items())}\n"
        )
        sys.stdout.flush()
    failed = [outcome for outcome in outcomes if outcome.state not in ("done", "not run")]
    for outcome in failed:
        kind = "stopped" if outcome.state == "stopped" else "error"
        where = f"{outcome.run}: " if sweep else ""
        record = f" (log: {outcome.log})" if sweep and outcome.log.is_file() else ""
        sys.stderr.write(f"{kind}: {where}{outcome.said.removeprefix('stopped ')}{record}\n")
    if status or not failed:
        return status
    return 2 if all(outcome.status == 2 for outcome in failed) else 1
