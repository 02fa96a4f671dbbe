"""Simulate studies of ``cnnpool choose`` and write their error rates and savings into docs/choose.md.

usage: python scripts/docs/choose_errors.py [--studies 2000]

The first table has made-up candidates, the second the means and spreads of published sweeps.
"""

import argparse
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import stdtr
from scipy.stats import chi2, rankdata, t

from cnnpool.choose.options import Options
from cnnpool.choose.rounds import LEVEL, Rule, State, replays
from cnnpool.report.measure import ACCURACY
from scripts.docs.claims import plain
from scripts.docs.pages import DOCS, filled, write
from scripts.docs.provenance import Table

CANDIDATES, ROUNDS = 8, 20
SWEEPS = {
    "mnist_few/100": "MNIST, 100 images, 200 steps",
    "mnist_few/200": "MNIST, 1,000 images, 200 steps",
    "mnist_few/10000": "MNIST, 10,000 images, 200 steps",
    "mnist_few/1000_steps": "MNIST, 1,000 images, 1,000 steps",
    "mnist_few/one_rate/5000": "MNIST, 1,000 images, 5,000 steps",
    "mnist_operators": "MNIST, all images",
    "small/cifar": "CIFAR-10 (JPEG), 1,000 images, 30 epochs",
    "small/drawings": "2,449 drawings, 20 epochs",
    "cifar_operators/4": "CIFAR-10 (JPEG), 4 epochs",
}
"""Folder of published runs -> their name on the page."""
POOLS = Options().pools
EACH, LATEST, RACE_STARTS, FIXED = len(POOLS), 10, 5, 6
"""Candidates and most rounds of studies from published sweeps, the first round that a race looks at, and the
seeds of a design without looks."""
Draw = Callable[[Generator, tuple[int, int]], np.ndarray]


class Scenario(NamedTuple):
    """Means of the candidates in standard deviations of a run, and how a run scatters around them."""

    name: str
    means: tuple[float, ...]
    draw: Draw


normal = Generator.standard_normal


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


def trained(state: State, rounds: int) -> int:
    """The runs of a study: no candidate is trained after the round in which it was dropped, or all ended."""
    ended = [drop.round for drop in state.drops]
    last = ended[-1] if state.finished else rounds
    return sum(ended) + len(state.left) * last


def fixed_rounds(values: np.ndarray, power: float) -> int | None:
    """The fewest rounds, planned beforehand and tested once, that find the best as often as ``power``."""
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
    """Rows of made-up candidates: studies as ``choose`` runs them, without a margin, and a fixed design."""
    lines = [
        "| candidates | best dropped (%) | best found (%) | runs a study | runs, fixed design | saved (%) |",
        "|---|---|---|---|---|---|",
    ]
    for scenario in SCENARIOS:
        rule = Rule(candidates=CANDIDATES, rounds=ROUNDS, resolution=1.0 if scenario.draw is coarse else 0.0)
        values = simulated(scenario, studies)
        states = replays(values, rule)
        dropped = np.mean([0 not in state.left for state in states])
        alone = np.mean([state.left == (0,) for state in states])
        runs = np.mean([trained(state, ROUNDS) for state in states])
        found, fixed, saved = "–", "–", "–"
        if max(scenario.means) > 0:
            found = f"{100 * alone:.1f}"
            if planned := fixed_rounds(values, alone):
                fixed = f"{planned * CANDIDATES}"
                saved = f"{100 * (1 - runs / (planned * CANDIDATES)):.0f}"
        lines.append(f"| {scenario.name} | {100 * dropped:.1f} | {found} | {runs:.0f} | {fixed} | {saved} |")
    return lines


class Published(NamedTuple):
    """The default candidates in the runs of a sweep, the best first, in points of accuracy."""

    means: np.ndarray
    covariance: np.ndarray
    baseline: int  # The place of max

    @property
    def lead(self) -> float:
        """The lead of the best over the second, in standard deviations of their difference by seed."""
        spread = self.covariance[0, 0] + self.covariance[1, 1] - 2 * self.covariance[0, 1]
        return float((self.means[0] - self.means[1]) / math.sqrt(spread))

    def studies(self, studies: int) -> np.ndarray:
        """(studies, candidates, rounds) normal accuracies of as many runs as any way of choosing takes."""
        size = (studies, EACH * LATEST)
        drawn = np.random.default_rng(1984).multivariate_normal(self.means, self.covariance, size)
        return drawn.transpose(0, 2, 1)


def published(folder: str) -> Published:
    """The default candidates in the runs of a folder of published ones."""
    found = {plain(choice): runs for choice, runs in Table(folder, "max").of(ACCURACY).items()}
    values = 100 * np.array([[found[pool][seed] for seed in sorted(found["max"])] for pool in POOLS])
    order = np.argsort(-values.mean(1))
    values = values[order]
    return Published(values.mean(1), np.cov(values), int(np.flatnonzero(order == POOLS.index("max"))[0]))


def advised(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The advice of ``choose`` in studies, whether it is shown, whether the best was dropped, and runs."""
    rule, found = Rule(candidates=EACH, rounds=LATEST), []
    for study, state in zip(values, replays(values, rule), strict=True):
        last = state.drops[-1].round if state.finished else LATEST
        best = max(state.left, key=study[:, :last].mean(1).__getitem__)
        found.append((best, len(state.left) == 1, 0 not in state.left, trained(state, LATEST)))
    best, shown, dropped, runs = map(np.array, zip(*found, strict=True))
    return best, shown, dropped, runs


def halved(values: np.ndarray, runs: float) -> np.ndarray:
    """Successive halving with ``runs`` in all (Jamieson & Talwalkar 2016): the better half goes on."""
    stages = math.ceil(math.log2(EACH))
    chosen = []
    for study in values:
        left, done = np.arange(EACH), 0
        for _ in range(stages):
            done = min(done + max(1, round(runs / stages / len(left))), values.shape[2])
            order = study[left, :done].mean(1).argsort()[::-1]
            left = left[order[: math.ceil(len(left) / 2)]]
        chosen.append(left[0])
    return np.array(chosen)


def raced(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """F-race (Birattari et al. 2002): choice and runs; those worse than the best by ranks are dropped."""
    chosen, runs = [], []
    for study in values:
        left, spent = np.arange(EACH), 0
        for done in range(1, LATEST + 1):
            spent += len(left)
            if done >= RACE_STARTS and len(left) > 1:
                left = left[_unbeaten(study[left, :done])]
        chosen.append(left[study[left, :LATEST].mean(1).argmax()])
        runs.append(spent)
    return np.array(chosen), np.array(runs)


def _unbeaten(values: np.ndarray) -> np.ndarray:
    """Mask of the candidates (k, rounds) that Friedman's test, and Conover's after it, do not drop."""
    k, n = values.shape
    ranks = rankdata(-values, axis=0)
    sums, squares, even = ranks.sum(1), (ranks**2).sum(), n * k * (k + 1) ** 2 / 4
    statistic = (k - 1) * ((sums**2).sum() - n * even) / (squares - even)
    if statistic <= chi2.ppf(1 - LEVEL, k - 1):
        return np.ones(k, dtype=bool)
    error = math.sqrt(2 * n * (1 - statistic / (n * (k - 1))) * (squares - even) / ((n - 1) * (k - 1)))
    return np.asarray(sums - sums.min() <= t.ppf(1 - LEVEL / 2, (n - 1) * (k - 1)) * error)


def regrets(studies: int) -> list[str]:
    """Rows of published sweeps: points of accuracy below the best, by each way to choose."""
    lines = [
        "| candidates | lead (sd) | best dropped (%) | one left (%) | behind: advice | keeping max "
        f"| {FIXED} seeds | halving | F-race | runs: choose, halving | F-race |",
        "|" + "---|" * 11,
    ]
    for folder, name in SWEEPS.items():
        sweep = published(folder)
        values, behind = sweep.studies(studies), sweep.means[0] - sweep.means  # Points
        best, shown, dropped, runs = advised(values[..., :LATEST])
        raced_best, raced_runs = raced(values[..., :LATEST])
        cells = [f"{sweep.lead:.2f}", f"{100 * dropped.mean():.1f}", f"{100 * shown.mean():.0f}"]
        kept = np.where(shown, behind[best], behind[sweep.baseline])
        fixed = values[..., :FIXED].mean(2).argmax(1)
        halved_best = halved(values, runs.mean())
        every = (behind[best], kept, behind[fixed], behind[halved_best], behind[raced_best])
        cells += [f"{regret.mean():.2f}" for regret in every]
        lines.append(f"| {name} | {' | '.join(cells)} | {runs.mean():.0f} | {raced_runs.mean():.0f} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=2000)
    studies = parser.parse_args().studies
    command = f"`python scripts/docs/choose_errors.py --studies {studies}`"
    made_up = (
        f"{studies:,} simulated studies a row, {CANDIDATES} candidates, at most {ROUNDS} rounds, no margin "
        f"({command}):"
    )
    of_sweeps = (
        f"{studies:,} studies a row with the means and covariances of published runs of the {EACH} default "
        f"candidates, at most {LATEST} rounds, no margin; *behind* is in points of accuracy:"
    )
    page = (DOCS / "choose.md").read_text("utf-8")
    for name, head, rows in (("simulated", made_up, table), ("published", of_sweeps, regrets)):
        page = filled(page, name, "\n".join([f"{head}\n", *rows(studies)]))
    write("choose.md", page)


if __name__ == "__main__":
    main()
