"""Run each job in a worker of a Ray cluster, so that one crash stops no other job."""

import logging
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Le

from cnnpool.launch.job import Job, Outcome, Workers
from cnnpool.launch.run_job import lost, outcome_if_done, run, unreported
from cnnpool.run_folder.layout import LOG
from cnnpool.system.signals import Signals, Stopped

POLL_S = 0.2
ANSWER_S = 10
OWN = "local"
LOST = "its machine left the cluster; rerun the same command to resume"
LIMITS = {"include_dashboard": False, "object_store_memory": 80 * 2**20}  # Of an own Ray


def run_ray(
    tasks: Sequence[Job],
    /,
    *,
    address: str | None = None,
    threads: Workers = 1,
    gpus: Annotated[float, Ge(0), Le(1024)] = 0,
) -> Iterator[Outcome]:
    """Yield outcomes as the jobs end; their folders must be the same on every machine of the cluster.

    Args:
        address: of the cluster; null: that of ``RAY_ADDRESS``, or a new Ray on this machine.
        threads: processors that each job reserves and uses.
        gpus: GPUs that each job reserves.

    Raises:
        ValueError: if Ray is not installed or does not respond, or a job needs more than there is.
    """
    if any(job.devices > 1 for job in tasks):
        raise ValueError("launch=ray runs each job on one device: leave fit.devices at 1")
    ray = _connected(address, threads, gpus)
    work = ray.remote(num_cpus=threads, num_gpus=gpus, max_calls=1, max_retries=0)(_work)
    running: dict[Any, Job] = {}
    tried_again: set[Path] = set()
    stop: Stopped | None = None

    def start(job: Job) -> None:
        running[work.options(name=job.name).remote(job, Path.cwd())] = job

    # Installed after Ray's own handlers; exceptions must not interrupt ray.wait.
    with Signals() as signals:
        signals.patient = True
        for job in tasks:
            if outcome := outcome_if_done(job):
                yield outcome
            else:
                start(job)
        while running:
            for reference in ray.wait(list(running), timeout=POLL_S)[0]:
                job = running.pop(reference)
                outcome = _outcome(ray, reference, job)
                if outcome is None and not stop and job.folder not in tried_again:
                    tried_again.add(job.folder)
                    start(job)
                elif (outcome := outcome or lost(job, LOST, job.folder / LOG)).state != "not run":
                    yield outcome
            if signals.pending is not None:
                for reference in running:
                    ray.cancel(reference, force=stop is not None)
                stop, signals.pending = Stopped(signals.pending), None
    ray.shutdown()
    if stop:
        raise stop


def _connected(address: str | None, threads: int, gpus: float) -> Any:
    if not find_spec("ray"):
        raise ValueError("launch=ray needs Ray: pip install 'cnnpool[ray]'")
    # Ray reports usage statistics by default.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    there = address or os.environ.get("RAY_ADDRESS") or OWN
    check_reachable(there)
    try:
        ray.init(
            there, log_to_driver=False, logging_level=logging.CRITICAL, **(LIMITS if there == OWN else {})
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        message = str(error).strip().splitlines()[0]
        raise ValueError(f"launch.address={there}: no Ray cluster answers there ({message})") from None
    _find_room(ray, there == OWN, threads, gpus)
    return ray


def _find_room(ray: Any, own: bool, threads: int, gpus: float) -> None:
    """Refuse resources that this machine lacks; report those missing in a cluster, which may grow."""
    machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if any(threads <= has.get("CPU", 0) and gpus <= has.get("GPU", 0) for has in machines):
        return
    most = (max(has.get(kind, 0) for has in machines) for kind in ("CPU", "GPU"))
    message = f"launch.threads={threads}, launch.gpus={gpus}: {{}} {{:g}} processors and {{:g}} devices"
    if own:
        raise ValueError(message.format("this machine has", *most))
    sys.stderr.write(f"{message.format('jobs wait, no machine has more than', *most)}\n")


def check_reachable(address: str) -> None:
    """Refuse a HOST:PORT that does not respond; Ray itself would wait for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER_S).close()
    except (OSError, OverflowError) as error:
        raise ValueError(f"launch.address={address}: no Ray cluster answers there ({error})") from None


def _work(job: Job, folder: Path) -> Outcome:
    """Train in a worker; Ray sets threads and devices, but not the working directory."""
    os.chdir(folder)
    with Signals():
        return run(job)


def _outcome(ray: Any, reference: Any, job: Job) -> Outcome | None:
    """The outcome returned by a worker, or a failure if the worker was lost; None if its machine was."""
    try:
        outcome: Outcome = ray.get(reference)
        return outcome
    except ray.exceptions.TaskCancelledError:
        # Ray drops the result of a cancelled task.
        return unreported(job)
    except ray.exceptions.NodeDiedError:
        return None
    except ray.exceptions.RayError as error:
        message = f"its worker ended early: {type(error).__name__} (out of memory?)"
    return lost(job, message, job.folder / LOG)
