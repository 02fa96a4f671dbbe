"""Run the jobs of one command as ``launch`` says, printing a line for each as it ends."""

import json
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from cnnpool import registry
from cnnpool.launch.job import Job, Outcome
from cnnpool.launch.run_job import run_here, unreported
from cnnpool.run_folder.identity import identity_settings
from cnnpool.schema import GROUPS
from cnnpool.system.next_command import BOARD, from_here, next_lines
from cnnpool.system.process import in_group, rank
from cnnpool.system.progress import Progress, clear_bars, duration
from cnnpool.system.signals import Signals, Stopped
from cnnpool.tables import printable


def run_all(jobs: Sequence[Job]) -> int:
    """Run every job, and return the exit status of the command.

    Prints how each job ended.
    """
    outcomes: list[Outcome] = []
    status = 0
    with Signals():
        try:
            for outcome in outcomes_of(jobs):
                outcomes.append(outcome)
        except Stopped as stop:
            status = stop.status
    reported = {outcome.run for outcome in outcomes}
    rest = [job for job in jobs if job.name not in reported]
    return conclude([*outcomes, *map(unreported, rest)], status)


def outcomes_of(jobs: Sequence[Job]) -> Iterator[Outcome]:
    """Run ``jobs`` with the launcher of the first; several leave their plan until all have ended."""
    _draw_once(jobs)
    outcomes = _launched(jobs)
    return outcomes if len(jobs) == 1 or rank() else _reported(outcomes, jobs)


def _draw_once(jobs: Sequence[Job]) -> None:
    """Let one seed of each choice draw pictures, unless they are asked for: others' look alike."""
    drawn = set[str]()
    for job in jobs:
        choice = _choice(job)
        if choice in drawn and not any("fit.pictures=" in word for word in job.overrides):
            job.settings.get("fit", {}).update(pictures=False)
        drawn.add(choice)


def _choice(job: Job) -> str:
    """The settings of a job apart from its seed, as text."""
    return json.dumps(identity_settings(job.settings) | {"seed": None}, sort_keys=True)


def _reported(outcomes: Iterator[Outcome], jobs: Sequence[Job]) -> Iterator[Outcome]:
    """``outcomes`` as they come, each printed as a line: result, mean of its choice, time left."""
    shared = os.path.commonpath([job.name for job in jobs])
    names = {job.name: os.path.relpath(job.name, shared or ".") for job in jobs}
    width, begun, trained = max(map(len, names.values())), time.monotonic(), 0
    choices = {job.name: (_choice(job), job.settings.get("seed")) for job in jobs}
    scores: dict[str, dict[Any, float]] = defaultdict(dict)  # By choice and seed
    shown = set[str]()
    # Imported late: a single run has no plan.
    from cnnpool.run_folder.plan import planned

    with planned({job.folder: job.overrides for job in jobs}):
        for number, outcome in enumerate(outcomes, 1):
            trained += outcome.trained
            message = "as above" if outcome.message in shown else outcome.message.removeprefix("stopped ")
            failed = f"{outcome.state}: {message}"
            words = [names[outcome.run].ljust(width), outcome.message if outcome.state == "done" else failed]
            shown |= {outcome.message} - {""}
            if outcome.accuracy is not None:
                choice, seed = choices[outcome.run]
                scores[choice][seed] = 100 * outcome.accuracy
                own = [*scores[choice].values()]
                words += [f"mean of {len(own)}: {sum(own) / len(own):.2f} %"] * (len(own) > 1)
            if trained and (rest := len(jobs) - number):
                words.append(f"{duration((time.monotonic() - begun) / trained * rest)} left")
            clear_bars()
            line = "   ".join(map(printable, words))
            sys.stdout.write(f"[{number:{len(str(len(jobs)))}}/{len(jobs)}] {line}\n")
            sys.stdout.flush()
            yield outcome


def _launched(jobs: Sequence[Job]) -> Iterator[Outcome]:
    options = dict(jobs[0].settings.get("launch", {}))
    name = options.pop("name", "local")
    if name == "local" and all(job.devices == 1 for job in jobs):
        return run_local(jobs)
    alone = len(jobs) == 1 and jobs[0].devices == 1 and not options.get("threads")
    if in_group() or (name == "processes" and alone):
        return run_here(jobs)
    # Imported late: a plain run needs no other launcher.
    from cnnpool.launch.runners import RUNNERS

    if name == "local":
        return _counted(RUNNERS["processes"](jobs, jobs=1), jobs)
    runner = registry.lookup(RUNNERS, GROUPS["launch"].entries, name)
    return _counted(runner(jobs, **options), jobs)


def _counted(outcomes: Iterator[Outcome], jobs: Sequence[Job]) -> Iterator[Outcome]:
    """``outcomes`` as they come; on a terminal, also count how many of several ``jobs`` have ended."""
    # The first line may be hours away.
    shown = len(jobs) > 1 and sys.stderr.isatty()
    with Progress("training", len(jobs), "jobs") if shown else nullcontext() as progress:
        for outcome in outcomes:
            if progress:
                progress.step()
            yield outcome


def run_local(jobs: Sequence[Job]) -> Iterator[Outcome]:
    """Like :func:`run_here`; after a job that ran out of memory the others run in separate processes.

    Memory still held by the failed job could make small jobs fail too.
    """
    for number, outcome in enumerate(run_here(jobs), 1):
        yield outcome
        if outcome.out_of_memory and number < len(jobs):
            # torch is imported already. With the same number of threads the results are bit-identical.
            import torch

            from cnnpool.launch.runners import RUNNERS
            from cnnpool.system.hardware import release_memory

            release_memory()
            sys.stdout.write("out of memory: the other jobs run in separate processes\n")
            yield from RUNNERS["processes"](jobs[number:], jobs=1, threads=torch.get_num_threads())
            return


def conclude(outcomes: Sequence[Outcome], status: int = 0) -> int:
    """Print how many jobs ended how; return 0 if all are done, 2 if all failures are mistakes, else 1."""
    sweep = len(outcomes) > 1
    if sweep:
        counts = Counter(outcome.state for outcome in outcomes)
        sys.stdout.write(
            f"{len(outcomes)} jobs: {', '.join(f'{n} {state}' for state, n in counts.items())}\n"
        )
        sys.stdout.flush()
    if not rank():
        sys.stdout.write(_next([outcome.log.parent for outcome in outcomes if outcome.state == "done"]))
        sys.stdout.flush()
    failed = [outcome for outcome in outcomes if outcome.state not in ("done", "tried", "not run")]
    alike: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in failed:
        alike.setdefault((outcome.state, outcome.message), []).append(outcome)
    for same in alike.values():
        sys.stderr.write(_failure(same, sweep))
    if status or not failed:
        return status
    if len(outcomes) == 1:
        return failed[0].status
    return 2 if all(outcome.status == 2 for outcome in failed) else 1


def _failure(same: Sequence[Outcome], sweep: bool) -> str:
    """A line on how one job, or several in the same way, failed."""
    first = same[0]
    kind = "stopped" if first.state == "stopped" else "error"
    more = f" and {len(same) - 1} more" if len(same) > 1 else ""
    where = f"{first.run}{more}: " if sweep else ""
    record = f" (log: {first.log})" if sweep and first.log.is_file() else ""
    return f"{kind}: {where}{first.message.removeprefix('stopped ')}{record}\n"


def _next(folders: Sequence[Path]) -> str:
    """The location of the finished jobs' results, and the command that shows them."""
    if not folders:
        return ""
    folder = from_here(Path(os.path.commonpath([folder.absolute() for folder in folders])))
    board = ("tensorboard", "--logdir", folder)
    if len(folders) == 1:
        return f"results: {folder}\n{next_lines(board, ('cnnpool', 'probe', folder))}"
    lines = next_lines(("cnnpool", "compare", folder), board)
    return f"results: {folder}\n{lines}{'':6}{BOARD}\n"
