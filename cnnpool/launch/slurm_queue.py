"""SLURM's queue by its own commands: which jobs are in it, what it allows, and how a job of it ends."""

import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterable

from cnnpool.system.progress import make_way

NAME = "cnnpool"
"""Of every job in the queue."""
ANSWER_S = 60
LOST = "lost"
"""The state of a job that the queue does not list any more."""
ENDED = {
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "TIMEOUT",
}
TO_COME = {"BeginTime", "Cleaning", "Dependency", "JobArrayTaskLimit", "None", "Priority", "Resources"}
"""Reasons to wait that pass by themselves."""


def ask(*words: str) -> str | None:
    """The output of a command of SLURM's; None if it fails, as where the controller does not answer."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=ANSWER_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    # Of a single job that it has forgotten, squeue says that the number is invalid.
    return done.stdout if done.returncode == 0 or "Invalid job id" in done.stderr else None


class Queue:
    """The jobs in the queue, asked for all at once; it says once why jobs wait for what does not come."""

    def __init__(self) -> None:
        self._said: set[str] = set()
        self._absent: set[str] = set()

    def ended(self, ids: Collection[str], *, sure: bool = True) -> dict[str, str]:
        """The jobs that have ended, and in which state, or that the queue has lost.

        Args:
            ids: of jobs, or of elements of arrays, such as ``12_3``.
            sure: whether they must have been so at the call before, too: a job that is being queued again
                looks ended for a moment.
        """
        arrays = sorted({one.partition("_")[0] for one in ids})
        listed = ask("squeue", "-h", "-r", "-t", "all", "-j", ",".join(arrays), "-o", "%i|%T|%r")
        if listed is None:
            return {}
        found = {name: rest for name, *rest in (line.split("|", 2) for line in listed.splitlines())}
        self._say(reason for state, reason in found.values() if state == "PENDING")
        gone = {one for one in ids if one not in found or found[one][0] in ENDED}
        twice, self._absent = gone & self._absent, gone
        return {one: found[one][0] if one in found else LOST for one in (twice if sure else gone)}

    def _say(self, reasons: Iterable[str]) -> None:
        for reason in sorted(set(reasons) - TO_COME - self._said):
            self._said.add(reason)
            make_way()
            sys.stderr.write(f"launch=slurm: a job waits: {reason}\n")


def own() -> list[str]:
    """The ids of this user's jobs of ours that wait or run."""
    listed = ask("squeue", "-h", "-r", "-u", str(os.getuid()), "-n", NAME, "-o", "%i")
    return (listed or "").split()


def most_in_array(default: int = 1000) -> int:
    """How many jobs the cluster takes in one array."""
    found = re.search(r"^MaxArraySize\s*=\s*(\d+)", ask("scontrol", "show", "config") or "", re.MULTILINE)
    return max(1, int(found[1])) if found else default


def comes_back() -> bool:
    """Whether this job, asked to end, is queued again: it gives way to another, or was told so by hand.

    One that gives way would count as completed once it ends, so it is queued here. A cancelled one is not.
    """
    job = os.environ.get("SLURM_JOB_ID", "")
    shown = ask("scontrol", "show", "job", "-o", job) if job else None
    facts = dict(re.findall(r"(\w+)=(\S+)", shown or ""))
    if facts.get("JobState") == "RUNNING" and facts.get("PreemptTime", "None") != "None":
        return ask("scontrol", "requeue", job) is not None
    return int(facts.get("Restarts", 0)) > int(os.environ.get("SLURM_RESTART_COUNT", 0))
