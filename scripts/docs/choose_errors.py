"""Simulate studies of ``cnnpool choose`` and write their error rates and savings into docs/choose.md.

usage: python scripts/docs/choose_errors.py [--studies 2000]
"""

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import stdtr

from cnnpool.choose.rounds import LEVEL, Rule, State, replay

PAGE = Path(__file__).resolve().parents[2] / "docs" / "choose.md"
START, END = "<!-- simulated: begin -->", "<!-- simulated: end -->"
CANDIDATES, ROUNDS = 8, 20
Draw = Callable[[Generator, tuple[int, int]], np.ndarray]


class Scenario(NamedTuple):
    """Means of the candidates in standard deviations of a run, and how a run scatters around them."""

    name: str
    means: tuple[float, ...]
    draw: Draw


def normal(generator: Generator, size: tuple[int, int]) -> np.ndarray:
    return generator.standard_normal(size)


def heavy(generator: Generator, size: tuple[int, int]) -> np.ndarray:
    return generator.standard_t(3, size) / math.sqrt(3)


def skewed_rivals(generator: Generator, size: tuple[int, int]) -> np.ndarray:
    """The best scatters evenly; its rivals are mostly a little above their mean, and seldom far below."""
    drawn = 1 - generator.exponential(size=size)
    drawn[0] = generator.standard_normal(size[1])
    return drawn


def skewed_best(generator: Generator, size: tuple[int, int]) -> np.ndarray:
    """The rivals scatter evenly; the best is mostly a little below its mean, and seldom far above."""
    drawn = generator.standard_normal(size)
    drawn[0] = generator.exponential(size=size[1]) - 1
    return drawn


def collapsing(generator: Generator, size: tuple[int, int]) -> np.ndarray:
    """A tenth of the rivals' runs ends 5 sd lower, the others half a deviation above their mean."""
    drawn = generator.standard_normal(size)
    drawn[1:] += 0.5 - 5 * (generator.random((size[0] - 1, size[1])) < 0.1)
    return drawn


def shared_images(generator: Generator, size: tuple[int, int]) -> np.ndarray:
    """Training images that no round draws anew favour each candidate by half a deviation, at random."""
    return generator.standard_normal(size) + generator.standard_normal((size[0], 1)) / 2


def correlated(generator: Generator, size: tuple[int, int]) -> np.ndarray:
    """Half of the variance is the seed's, the same for every candidate."""
    return (generator.standard_normal(size) + generator.standard_normal(size[1])) / math.sqrt(2)


def coarse(generator: Generator, size: tuple[int, int]) -> np.ndarray:
    """Accuracies on so few test images that a run's standard deviation is one image."""
    return np.round(generator.standard_normal(size))


EQUAL, ONE = (0.0,) * CANDIDATES, (2.0,) + (0.0,) * (CANDIDATES - 1)
HALF = (1.5, *(0.0,) * 3, *(-3.0,) * 4)
SCENARIOS = [
    Scenario("all equal", EQUAL, normal),
    Scenario("all equal, heavy tails (t, 3 degrees of freedom)", EQUAL, heavy),
    Scenario("all equal, correlated seeds", EQUAL, correlated),
    Scenario("all equal, coarse metric", EQUAL, coarse),
    Scenario("all equal, rivals skewed downwards (exponential)", EQUAL, skewed_rivals),
    Scenario("all equal, the best skewed upwards (exponential)", EQUAL, skewed_best),
    Scenario("all equal, rivals collapse in a tenth of runs", EQUAL, collapsing),
    Scenario("all equal, training images the same in all rounds (0.5 sd)", EQUAL, shared_images),
    Scenario("one better by 2 sd", ONE, normal),
    Scenario("one better by 2 sd, heavy tails", ONE, heavy),
    Scenario("one better by 2 sd, correlated seeds", ONE, correlated),
    Scenario("one better by 1.5 sd, four worse by 3 sd", HALF, normal),
    Scenario("evenly spread over 6 sd", tuple(np.linspace(3, -3, CANDIDATES)), normal),
]


class Rates(NamedTuple):
    """Shares of studies in which the best was dropped, and in which it alone was left; runs per study."""

    dropped: float
    found: float
    runs: float


def sequential(scenario: Scenario, studies: int) -> Rates:
    """Studies as ``choose`` runs them, without a margin."""
    rule = Rule(candidates=CANDIDATES, rounds=ROUNDS, resolution=1.0 if scenario.draw is coarse else 0.0)
    states = [replay(values, rule) for values in simulated(scenario, studies)]
    return Rates(
        dropped=float(np.mean([0 not in state.left for state in states])),
        found=float(np.mean([state.left == (0,) for state in states])),
        runs=float(np.mean(list(map(trained, states)))),
    )


def trained(state: State) -> int:
    """The runs of a study: no candidate is trained after the round in which it was dropped, or all ended."""
    ended = [drop.round for drop in state.drops]
    last = ended[-1] if state.finished else ROUNDS
    return sum(ended) + len(state.left) * last


def fixed_rounds(scenario: Scenario, studies: int, power: float) -> int | None:
    """The fewest rounds, planned beforehand and tested once, that find the best as often as ``power``."""
    values = simulated(scenario, studies)
    lead = values[:, :1] - values[:, 1:]
    for rounds in range(3, ROUNDS + 1):
        part = lead[..., :rounds]
        error = part.std(-1, ddof=1) / math.sqrt(rounds)
        p = stdtr(rounds - 1, -part.mean(-1) / error)
        if (p <= LEVEL / (CANDIDATES - 1)).all(1).mean() >= power:
            return rounds
    return None


def simulated(scenario: Scenario, studies: int) -> np.ndarray:
    """(studies, candidates, rounds) values, the best candidate first, each study of a seed of its own."""
    size = (CANDIDATES, ROUNDS)
    drawn = [scenario.draw(np.random.default_rng([1984, study]), size) for study in range(studies)]
    return np.stack(drawn) + np.array(scenario.means)[:, None]


def table(studies: int) -> list[str]:
    lines = [
        "| candidates | best dropped (%) | best found (%) | runs a study | runs, fixed design | saved (%) |",
        "|---|---|---|---|---|---|",
    ]
    for scenario in SCENARIOS:
        rates, found, fixed, saved = sequential(scenario, studies), "–", "–", "–"
        if max(scenario.means) > 0:
            found = f"{100 * rates.found:.1f}"
            if planned := fixed_rounds(scenario, studies, rates.found):
                fixed = f"{planned * CANDIDATES}"
                saved = f"{100 * (1 - rates.runs / (planned * CANDIDATES)):.0f}"
        dropped, runs = f"{100 * rates.dropped:.1f}", f"{rates.runs:.0f}"
        lines.append(f"| {scenario.name} | {dropped} | {found} | {runs} | {fixed} | {saved} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=2000)
    studies = parser.parse_args().studies
    head = (
        f"{studies:,} simulated studies a row, {CANDIDATES} candidates, at most {ROUNDS} rounds, no margin "
        f"(`python scripts/docs/choose_errors.py --studies {studies}`):"
    )
    page, rows = PAGE.read_text(encoding="utf-8"), "\n".join(table(studies))
    before, after = page.split(START)[0], page.split(END)[1]
    PAGE.write_text(f"{before}{START}\n\n{head}\n\n{rows}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
