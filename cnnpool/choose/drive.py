"""Run a study: the tries, then round after round, up to a decision or the end of the budget."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field

import numpy as np

from cnnpool.choose.boundary import FIRST_ROUND
from cnnpool.choose.clock import Clock
from cnnpool.choose.ledger import LOG
from cnnpool.choose.study import Study, View, plan, view
from cnnpool.choose.tune import settle, tries_of
from cnnpool.launch.job import Job, Outcome
from cnnpool.launch.sweep import outcomes_of
from cnnpool.system.signals import Stopped

FAILED = ("failed", "refused")


@dataclass
class Batch:
    """The jobs that run now, as a display needs them.

    Args:
        said: in words, such as ``round 3 of at most 12``.
        jobs: with the place of the candidate that each belongs to.
        ended: how those that have ended did, by name.
    """

    said: str
    jobs: list[tuple[int, Job]]
    ended: dict[str, Outcome] = field(default_factory=dict)

    def failure(self, job: Job) -> str:
        """Why a job failed, in one line; nothing if it did not."""
        outcome = self.ended.get(job.name)
        return outcome.message if outcome and outcome.state in FAILED else ""


@dataclass
class Driver:
    """Runs a study to its end.

    Args:
        study: the study.
        clock: counts its time.
        watch: called with where the study stands, and with what runs then, if anything.
        run: jobs in, outcomes out as they end.
    """

    study: Study
    clock: Clock
    watch: Callable[[View, Batch | None], None]
    run: Callable[[Sequence[Job]], Iterator[Outcome]] = outcomes_of

    def drive(self) -> tuple[View, str]:
        """Run all that is missing.

        Returns:
            Where the study stands then, and why it ended: the view's ``finished``, or ``budget``.

        Raises:
            ValueError: if no candidate can run, all for the same reason.
            Stopped: by a signal.
        """
        study = self.study
        if study.options.tune and not self._tune():
            return view(study), "budget"
        while True:
            seen = view(study)
            if study.ledger.rounds is None and seen.done:
                plan(study, seen)
                seen = view(study)
            self.watch(seen, None)
            if seen.finished:
                return seen, seen.finished
            batch = next_round(study, seen)
            if not self._finish(batch):
                return view(study), "budget"
            for place, job in batch.jobs:
                study.arms[place].failed = batch.failure(job) or study.arms[place].failed
            self._refuse_if_all_failed()

    def _tune(self) -> bool:
        """Run the tries that are missing and take their best; False if the budget ended them."""
        tried = tries_of(self.study)
        batch = Batch("tuning", [(one.arm, one.job) for one in tried if one.score is None])
        if batch.jobs and not self._finish(batch):
            return False
        for one in tried:
            one.failed = batch.failure(one.job)
        settle(self.study, tried)
        self._refuse_if_all_failed()
        return True

    def _finish(self, batch: Batch) -> bool:
        """Run a batch, whose own words go into a log; False if the budget does not allow it, or ended it."""
        if not fits(self.study, len(batch.jobs)):
            return False
        ledger, begun = self.study.ledger, time.monotonic()
        self.watch(view(self.study), batch)
        try:
            with ExitStack() as stack:
                said = stack.enter_context((ledger.folder / LOG).open("a", encoding="utf-8", buffering=1))
                for context in (self.clock.armed(), redirect_stdout(said), redirect_stderr(said)):
                    stack.enter_context(context)
                for outcome in self.run([job for _, job in batch.jobs]):
                    batch.ended[outcome.run] = outcome
                    self.watch(view(self.study), batch)
        except Stopped:
            if not self.clock.rang:
                raise
            return False
        finally:
            self.clock.count()
            ledger.batch_s += time.monotonic() - begun
            ledger.batch_runs += len(batch.ended)
            ledger.save()
        return True

    def _refuse_if_all_failed(self) -> None:
        """Raise if no candidate is left, and all failed for one reason: a mistake in what they share."""
        reasons = {arm.failed for arm in self.study.arms}
        if len(reasons) == 1 and (reason := reasons.pop()):
            raise ValueError(f"no candidate runs: {reason}")


def next_round(study: Study, seen: View) -> Batch:
    """The runs that the next round lacks, the most promising candidates first."""
    order = sorted(seen.active, key=lambda i: (-np.nanmean(seen.values[i]) if seen.done else 0.0, i))
    first = study.arms[order[0]].jobs([study.first_seed])[0]
    side_by_side = first.settings.get("launch", {}).get("name", "local") != "local"
    # Jobs that run side by side need not wait for each other before the first look.
    together = FIRST_ROUND if side_by_side and not seen.done else 1
    jobs: list[tuple[int, Job]] = []
    for number in range(seen.done, seen.done + together):
        seed = study.seed(number)
        missing = [i for i in order if study.arms[i].read(seed) is None]
        jobs += [(i, job) for i in missing for job in study.arms[i].jobs([seed])]
    last = f" to {seen.done + together}" if together > 1 else ""
    planned = f" of at most {study.ledger.rounds}" if study.ledger.rounds else ""
    return Batch(f"round {seen.done + 1}{last}{planned}", jobs)


def fits(study: Study, runs: int) -> bool:
    """Whether so many runs are likely to end within the budget; the first ones are tried in any case."""
    ledger = study.ledger
    if study.left_s <= 0:
        return False
    return not ledger.batch_runs or runs * ledger.batch_s / ledger.batch_runs <= study.left_s
