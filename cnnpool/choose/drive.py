"""Run a study: the tries, then one round after another, until a decision or the end of the budget."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from itertools import product
from threading import Event, Thread

import numpy as np

from cnnpool.choose.candidates import Arm
from cnnpool.choose.ledger import LOG
from cnnpool.choose.options import tries
from cnnpool.choose.rounds import FIRST_ROUND
from cnnpool.choose.study import Study, View, plan, view
from cnnpool.launch.job import Job, Outcome
from cnnpool.launch.sweep import outcomes_of
from cnnpool.system.signals import Stopped

TICK_S = 0.5
SAVED_S = 10.0  # Interval between saves of the elapsed time: at most this much is lost by a kill
FAILED = ("failed", "refused")
TUNE = "tune"
TUNING_SEED = 1_000_000  # Added to the first seed: tries use seeds that the comparison does not


class Clock:
    """Within the context, a thread counts the time in the study's ledger twice a second."""

    def __init__(self, study: Study):
        self._study = study
        self._deadline_active = self.budget_spent = False
        self._ended = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Clock":
        self._last = self._saved = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()
        self.count()
        self._save()

    def count(self) -> None:
        now = time.monotonic()
        self._study.ledger.spent_s += now - self._last
        self._last = now

    @contextmanager
    def deadline_active(self) -> Iterator[None]:
        """Within the context, the end of the budget sets ``budget_spent`` and sends us SIGTERM."""
        self._deadline_active = True
        try:
            yield
        finally:
            self._deadline_active = False

    def _run(self) -> None:
        while not self._ended.wait(TICK_S):
            self.count()
            if time.monotonic() - self._saved > SAVED_S:
                self._save()
            if self._deadline_active and not self.budget_spent and self._study.left_s <= 0:
                self.budget_spent = True
                # Like a signal from outside: every launcher forwards it to the runs, which save and end.
                os.kill(os.getpid(), signal.SIGTERM)

    def _save(self) -> None:
        self._saved = time.monotonic()
        with suppress(OSError):
            self._study.ledger.save()


@dataclass
class Batch:
    """The running jobs, each with the index of its candidate, and the outcomes so far by name."""

    title: str
    jobs: list[tuple[int, Job]]
    ended: dict[str, Outcome] = field(default_factory=dict)

    def failure(self, job: Job) -> str:
        """Why a job failed, in one line; empty if it did not."""
        outcome = self.ended.get(job.name)
        return outcome.message if outcome and outcome.state in FAILED else ""


@dataclass
class Driver:
    """Runs a study to its end; ``watch`` is called with the current view and the running batch, if any."""

    study: Study
    clock: Clock
    watch: Callable[[View, Batch | None], None]
    run: Callable[[Sequence[Job]], Iterator[Outcome]] = outcomes_of

    def drive(self) -> tuple[View, str]:
        """Run all that is missing; returns the final view and why it ended: ``finished`` or ``budget``."""
        study = self.study
        if study.options.tune and not self._tune():
            return view(study), "budget"
        while True:
            plan(study, view(study))
            seen = view(study)
            self.watch(seen, None)
            if seen.finished:
                return seen, seen.finished
            batch = next_round(study, seen)
            ended = self._finish(batch)
            for place, job in batch.jobs:
                study.arms[place].failed = batch.failure(job) or study.arms[place].failed
            if not ended:
                return view(study), "budget"
            self._refuse_if_all_failed()

    def _tune(self) -> bool:
        """Run the missing tries and apply the best; False if the budget ended them."""
        tried, seed = tries_of(self.study), self.study.first_seed + TUNING_SEED
        jobs = [(place, one.jobs([seed])[0]) for place, one in tried]
        missing = [job for job, (_, one) in zip(jobs, tried, strict=True) if not one.read(seed)]
        batch = Batch("tuning", missing)
        if batch.jobs and not self._finish(batch):
            return False
        take_best(self.study, tried, batch)
        self._refuse_if_all_failed()
        return True

    def _finish(self, batch: Batch) -> bool:
        """Run a batch with its output in a log; False if the budget does not allow it, or ended it."""
        if not fits(self.study, len(batch.jobs)):
            return False
        ledger, begun = self.study.ledger, time.monotonic()
        self.watch(view(self.study), batch)
        log = (ledger.folder / LOG).open("a", encoding="utf-8", buffering=1)
        try:
            with log, self.clock.deadline_active(), redirect_stdout(log), redirect_stderr(log):
                for outcome in self.run([job for _, job in batch.jobs]):
                    batch.ended[outcome.run] = outcome
                    self.watch(view(self.study), batch)
        except Stopped:
            if not self.clock.budget_spent:
                raise
            return False
        finally:
            self.clock.count()
            ledger.batch_s += time.monotonic() - begun
            ledger.batch_runs += sum(one.state == "done" for one in batch.ended.values())
            ledger.save()
        return True

    def _refuse_if_all_failed(self) -> None:
        """Raise if all candidates failed for the same reason: a mistake in what they share."""
        reasons = {arm.failed for arm in self.study.arms}
        if len(reasons) == 1 and (reason := reasons.pop()):
            raise ValueError(f"no candidate runs: {reason}")


def next_round(study: Study, seen: View) -> Batch:
    """The missing runs of the next round, the most promising candidates first."""
    order = sorted(seen.active, key=lambda i: (-np.nanmean(seen.values[i]) if seen.done else 0.0, i))
    first = study.arms[order[0]].jobs([study.first_seed])[0]
    side_by_side = first.settings.get("launch", {}).get("name", "local") != "local"
    # Parallel jobs need not wait for each other before the first look.
    together = FIRST_ROUND if side_by_side and not seen.done else 1
    jobs: list[tuple[int, Job]] = []
    for number in range(seen.done, seen.done + together):
        seed = study.first_seed + number
        missing = [i for i in order if study.arms[i].read(seed) is None]
        jobs += [(i, job) for i in missing for job in study.arms[i].jobs([seed])]
    last = f" to {seen.done + together}" if together > 1 else ""
    planned = f" of at most {study.ledger.rounds}" if study.ledger.rounds else ""
    return Batch(f"round {seen.done + 1}{last}{planned}", jobs)


def fits(study: Study, runs: int) -> bool:
    """Whether ``runs`` runs are likely to end within the budget; the first ones are always tried."""
    return study.left_s > 0 and runs * study.ledger.run_s(0.0) <= study.left_s


def tries_of(study: Study) -> list[tuple[int, Arm]]:
    """(index of the candidate, arm) for every combination of ``choose.tune``."""
    keys = tries(study.options.tune)
    every = [tuple(map("=".join, zip(keys, values, strict=True))) for values in product(*keys.values())]
    out = study.ledger.folder / TUNE
    return [
        (place, Arm(arm.label, arm.network, out, tuned=overrides, ahead=1))
        for place, arm in enumerate(study.arms)
        for overrides in every
    ]


def take_best(study: Study, tried: Sequence[tuple[int, Arm]], batch: Batch) -> None:
    """Give every candidate its best combination, the first if equal; drop it if all of its tries failed."""
    seed = study.first_seed + TUNING_SEED
    for place, arm in enumerate(study.arms):
        own = [one for other, one in tried if other == place]
        found = {one.tuned: one.read(seed) for one in own}
        scores = {tuned: run.measured["val"]["accuracy"] for tuned, run in found.items() if run}
        if scores:
            arm.retune(max(scores, key=scores.__getitem__))
            continue
        reasons = [reason for one in own if (reason := batch.failure(one.jobs([seed])[0]))]
        arm.failed = ": ".join([f"no try of {', '.join(tries(study.options.tune))} ended", *reasons[:1]])
