"""SLURM's queue through its own commands: its jobs, its limits, and how its jobs end."""

import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterable

from cnnpool.system.progress import clear_bars

NAME = "cnnpool"  # Name of every job in the queue
ANSWER_S = 60
LOST = "lost"  # State of a job that the queue no longer lists
ENDED = {
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
    *("OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"),
}
TO_COME = {"BeginTime", "Cleaning", "Dependency", "JobArrayTaskLimit", "None", "Priority", "Resources"}
"""Reasons to wait that resolve by themselves."""


def ask(*words: str) -> str | None:
    """The output of a SLURM command; None if it fails, for example if the controller does not respond."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=ANSWER_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    # For a single forgotten job, squeue reports an invalid number.
    return done.stdout if done.returncode == 0 or "Invalid job id" in done.stderr else None


class Queue:
    """The jobs in the queue, queried together; reports once why jobs wait for what does not come."""

    def __init__(self) -> None:
        self._said: set[str] = set()
        self._absent: set[str] = set()

    def ended(self, ids: Collection[str], *, sure: bool = True) -> dict[str, str]:
        """The jobs of ``ids``, such as ``12_3``, that have ended or are lost, with their state.

        ``sure`` requires the same in the previous call: a job that is being requeued briefly looks ended.
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
            clear_bars()
            sys.stderr.write(f"launch=slurm: a job waits: {reason}\n")


def own() -> list[str]:
    """The ids of this user's waiting or running cnnpool jobs."""
    listed = ask("squeue", "-h", "-r", "-u", str(os.getuid()), "-n", NAME, "-o", "%i")
    return (listed or "").split()


def most_in_array(default: int = 1000) -> int:
    """The most jobs that the cluster allows in one array."""
    found = re.search(r"^MaxArraySize\s*=\s*(\d+)", ask("scontrol", "show", "config") or "", re.MULTILINE)
    return max(1, int(found[1])) if found else default


def comes_back() -> bool:
    """Whether this job comes back: one requeued by hand, or preempted, which is requeued here."""
    job = os.environ.get("SLURM_JOB_ID", "")
    shown = ask("scontrol", "show", "job", "-o", job) if job else None
    facts = dict(re.findall(r"(\w+)=(\S+)", shown or ""))
    if facts.get("JobState") == "RUNNING" and facts.get("PreemptTime", "None") != "None":
        return ask("scontrol", "requeue", job) is not None
    return int(facts.get("Restarts", 0)) > int(os.environ.get("SLURM_RESTART_COUNT", 0))
