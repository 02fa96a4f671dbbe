"""Rates and the like, tried for every candidate alike on validation images before the rounds begin."""

from dataclasses import dataclass
from itertools import product

from cnnpool.choose.candidates import TUNING_SEED
from cnnpool.choose.options import tries
from cnnpool.choose.study import Study
from cnnpool.launch.job import Job
from cnnpool.run_folder import results
from cnnpool.run_folder.errors import DamagedError

FOLDER = "tune"


@dataclass
class Try:
    """One training of a candidate with one combination of values.

    Args:
        arm: place of the candidate.
        overrides: the combination.
        job: the training.
        failed: why it did not end, in one line, or nothing.
    """

    arm: int
    overrides: tuple[str, ...]
    job: Job
    failed: str = ""

    @property
    def score(self) -> float | None:
        """Accuracy on the validation images; None if it is not finished."""
        try:
            found = results.read(self.job.folder)
        except DamagedError:
            return None
        return found.measured.get("val", {}).get("accuracy") if found else None


def tries_of(study: Study) -> list[Try]:
    """Every combination of ``choose.tune`` for every candidate, on a seed that decides nothing."""
    asked = tries(study.options.tune)
    seed, out = study.first_seed + TUNING_SEED, study.ledger.folder / FOLDER
    found = []
    for place, arm in enumerate(study.arms):
        for values in product(*asked.values()):
            overrides = tuple(f"{key}={value}" for key, value in zip(asked, values, strict=True))
            found += [
                Try(place, overrides, job) for job in arm.network.jobs(arm.candidate, [seed], out, overrides)
            ]
    return found


def settle(study: Study, tried: list[Try]) -> None:
    """Give every candidate its best combination, the first of equal ones; out is whose tries all failed."""
    for place, arm in enumerate(study.arms):
        own = [(one, score) for one in tried if one.arm == place and (score := one.score) is not None]
        if own:
            best = max(score for _, score in own)
            arm.retune(next(one.overrides for one, score in own if score == best))
        else:
            reasons = [one.failed for one in tried if one.arm == place and one.failed]
            arm.failed = f"no try of {', '.join(tries(study.options.tune))} ended" + "".join(
                f": {reasons[0]}" for _ in reasons[:1]
            )
