"""A study: its candidates, its rule, and its state, which depends on the finished runs alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from cnnpool.choose.candidates import Arm
from cnnpool.choose.ledger import Ledger
from cnnpool.choose.options import Options
from cnnpool.choose.rounds import FIRST_ROUND, Array, Rule, State, replay
from cnnpool.quantity import numbers
from cnnpool.registry import KEEP, did_you_mean
from cnnpool.report.measure import Measure
from cnnpool.report.notes import learned_nothing
from cnnpool.report.pairwise import margin_of
from cnnpool.report.statistics import Summary, summarise
from cnnpool.run_folder.results import Results

FINEST = 10**7  # A metric with a resolution finer than one over this is treated as continuous
NOTHING = "nothing learned"
HOPE = 1.5  # Factor on the budget when planning rounds: dropped candidates take no time


@dataclass
class Study:
    """All that the rounds need, and warnings for the report."""

    options: Options
    metric: Measure
    cost: Measure
    arms: list[Arm]
    ledger: Ledger
    warnings: tuple[str, ...] = ()

    @property
    def first_seed(self) -> int:
        return self.arms[0].network.first_seed

    @property
    def seeds(self) -> list[int]:
        return [self.first_seed + number for number in range(self.options.rounds)]

    @property
    def left_s(self) -> float:
        return self.options.budget_s - self.ledger.spent_s

    def learned_nothing(self, done: int) -> bool:
        """Whether no run of the first rounds is better than always predicting one class."""
        runs = [one for arm in self.arms for one in arm.runs(self.seeds[:done]).values()]
        return bool(runs) and all(map(learned_nothing, runs))

    @property
    def baseline(self) -> int:
        """The network as it is, where that is a candidate, else the first."""
        return next((i for i, arm in enumerate(self.arms) if arm.label == KEEP), 0)


@dataclass(frozen=True)
class View:
    """State of a study: values (candidates, rounds done), higher is better, NaN where a candidate is out.

    The next round trains those ``active``; others are ``out`` for a reason. NaN: a cost is not known.
    """

    values: Array
    state: State
    out: dict[int, str]
    active: tuple[int, ...]
    costs: tuple[float, ...]
    finished: str
    keep: int | None = None  # The network as it is

    @property
    def done(self) -> int:
        return int(self.values.shape[1])

    @property
    def order(self) -> list[int]:
        """Those left by their means, then those dropped, the last first, then those out."""
        ended = {drop.candidate: drop.round for drop in self.state.drops}

        def key(i: int) -> tuple[int, float]:
            if i in self.out:
                return 2, i
            return (1, -ended[i]) if i in ended else (0, -self.mean(i))

        return sorted(range(len(self.values)), key=key)

    @property
    def best(self) -> int | None:
        """The active candidate with the highest mean; None before the first round."""
        return max(self.active, key=self.mean) if self.active and self.done else None

    def mean(self, place: int) -> float:
        found = known(self.values[place])
        return float(found.mean()) if found.size else -math.inf

    def lead(self, place: int, other: int) -> Summary:
        """Another candidate's value minus that of this one, over the rounds that both have."""
        return summarise(known(self.values[other] - self.values[place]).tolist())

    @property
    def costs_known(self) -> bool:
        return all(math.isfinite(self.costs[i]) for i in self.active)

    @property
    def recommended(self) -> int | None:
        """The only one left, or of those shown not to be worse ``keep``, else the cheapest; None if none."""
        if self.finished == NOTHING:
            return None
        if len(self.active) == 1:
            return self.active[0]
        if self.keep in self.state.not_worse:
            return self.keep
        costs = self.costs if self.costs_known else [0.0] * len(self.costs)
        # Of equal costs the best.
        return min(self.state.not_worse, key=lambda i: (costs[i], -self.mean(i)), default=None)


def known(values: Array) -> Array:
    found: Array = values[np.isfinite(values)]
    return found


def view(study: Study) -> View:
    """The state of the study, from the finished runs: the same after any stop."""
    costs = tuple(_cost(study, arm) for arm in study.arms)
    out = {i: arm.failed for i, arm in enumerate(study.arms) if arm.failed} | _too_expensive(study, costs)
    values = np.full((len(study.arms), study.options.rounds), np.nan)
    facts: set[tuple[str | None, str | None]] = set()
    for i, arm in enumerate(study.arms):
        if i not in out:
            runs = arm.runs(study.seeds)
            facts |= {(one.data_sha256, one.precision) for one in runs.values()}
            values[i] = [signed(study, runs[seed]) if seed in runs else np.nan for seed in study.seeds]
            measured = zip(study.seeds, values[i], strict=True)
            if lost := [seed for seed, value in measured if seed in runs and math.isnan(value)]:
                out[i] = f"{study.metric.title} of seed {lost[0]} is not a number"
                values[i] = np.nan
    if len(facts) > 1:
        raise ValueError(
            f"the runs in {study.ledger.folder} were trained on different images or in different precision "
            f"({'; '.join(sorted(map(str, facts)))}): choose another folder by choose.out="
        )
    rule = Rule(
        candidates=len(study.arms),
        rounds=study.ledger.rounds or FIRST_ROUND,
        margin=study.ledger.margin,
        resolution=study.ledger.resolution,
    )
    # Without a plan there is no level for a look.
    most = study.ledger.rounds or FIRST_ROUND - 1
    for done in range(most + 1):
        state = replay(values[:, :done], rule)
        active = tuple(i for i in state.left if i not in out)
        finished = _finished(state, active, costs, done, study)
        # The last remaining candidate keeps its rounds.
        ended = finished and not (len(active) == 1 and not state.finished)
        if ended or done == most or not np.isfinite(values[list(active), done]).all():
            break
    # A bound beyond what is possible says nothing.
    loss = tuple(one if one < study.metric.width else math.inf for one in state.loss)
    keep = next((i for i in active if study.arms[i].label == KEEP), None)
    return View(values[:, :done], replace(state, loss=loss), out, active, costs, finished, keep)


def plan(study: Study, seen: View) -> None:
    """Fix the rounds, from time alone, the metric's resolution and, before the first look, the margin."""
    ledger = study.ledger
    if not 0 < seen.done <= FIRST_ROUND:
        return
    if ledger.rounds is None:
        affordable = seen.done + study.left_s / max(run_s(study) * len(seen.active), 1e-9)
        ledger.rounds = max(FIRST_ROUND, min(study.options.rounds, math.ceil(HOPE * affordable)))
        ledger.resolution = _step(study) or resolution(seen.values[np.isfinite(seen.values)])
        # Without a plan a view ends before the first look; runs side by side are beyond that.
        seen = view(study)
    ledger.margin = _margin(study, replace(seen, values=seen.values[:, :FIRST_ROUND]))
    ledger.save()


def _margin(study: Study, seen: View) -> float:
    """``choose.margin`` in the metric's unit, by mean errors of the baseline, else the first that ran."""
    if study.options.margin == "0":
        return 0.0
    means = [seen.mean(place) for place in (study.baseline, *range(len(study.arms)))]
    first = next(mean for mean in means if math.isfinite(mean))
    return margin_of(study.options.margin, study.metric, study.metric.sense * first) or 0.0


def _step(study: Study) -> float:
    """One image's part of an accuracy on all images of a split; 0 if another metric decides."""
    split, _, measured = study.metric.key.partition(".")
    found = next((one for arm in study.arms for one in arm.runs(study.seeds).values()), None)
    images = sum((found.images or {}).get(split, ())) if found and measured == "accuracy" else 0
    return 1 / images if images else 0.0


def resolution(values: Array) -> float:
    """One over the common denominator of ``values``, such as accuracies on N images; 0 if there is none."""
    whole = math.lcm(*(Fraction(value).limit_denominator(10**6).denominator for value in values.tolist()))
    # Whole numbers, such as 100 % throughout, show no step.
    exact = 1 < whole <= FINEST and np.allclose(values * whole, np.round(values * whole), atol=1e-6)
    return 1 / whole if exact else 0.0


def _finished(state: State, active: Sequence[int], costs: Sequence[float], done: int, study: Study) -> str:
    if not active:
        return "none left"
    if done >= FIRST_ROUND and study.learned_nothing(done):
        return NOTHING
    if len(active) == 1:
        return "one left"
    if state.finished:
        return state.finished
    if state.not_worse and all(math.isfinite(costs[i]) for i in active):
        cheapest = min(costs[i] for i in active)
        if any(costs[i] == cheapest for i in state.not_worse):
            return "decided"
    return "all rounds" if study.ledger.rounds is not None and done >= study.ledger.rounds else ""


def signed(study: Study, results: Results) -> float:
    """The metric of a run, negated if lower is better; NaN if it is not a number."""
    key, value = study.metric.key, study.metric.read(results.measured)
    if value is None:
        known = [name for name, _ in numbers(results.measured)]
        raise ValueError(f"choose.metric={key}: the runs do not measure it; {did_you_mean(key, known)}")
    return value * study.metric.sense


def _cost(study: Study, arm: Arm) -> float:
    found = [study.cost.read(one.measured) for one in arm.runs(study.seeds).values()]
    known = [value for value in found if value is not None and math.isfinite(value)]
    return float(np.mean(known)) if known else math.nan


def _too_expensive(study: Study, costs: Sequence[float]) -> dict[int, str]:
    limit, least = study.options.limit, min(filter(math.isfinite, costs), default=math.nan)
    if limit is None:
        return {}
    return {
        i: f"over the limit: {cost / least if least else math.inf:.2f} times the {study.cost.title} of the "
        "cheapest candidate"
        for i, cost in enumerate(costs)
        if cost > limit * least
    }


def run_s(study: Study) -> float:
    """Seconds of the budget that one more run takes: parallel runs and those after the first take less."""
    first = [one for arm in study.arms for one in arm.runs([study.first_seed]).values()]
    walls = [wall for one in first if (wall := one.measured.get("cost", {}).get("wall_s")) is not None]
    if not walls:
        # None ended: one takes longer than all of the time so far.
        return study.ledger.run_s(max(1.0, study.ledger.batch_s))
    wall = float(np.median(walls))
    return min(study.ledger.run_s(wall), wall)
