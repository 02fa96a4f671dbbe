"""Simulate intervals over seeds and test images, and write their coverage into docs/reliability.md.

usage: python scripts/docs/intervals.py [--studies 2000]
"""

import argparse
import itertools
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np
from numpy.random import Generator

from cnnpool.report.statistics import Bits, of_table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"
START, END = "<!-- intervals: begin -->", "<!-- intervals: end -->"
SEEDS, IMAGES = (3, 6, 10, 20), (360, 2000)
LEVELS, BY_SEED, APART = (1.0, 3.0), (0.0, 0.1, 0.3), (0.0, 0.5, 1.0)


def answers(
    generator: Generator,
    choices: int,
    seeds: int,
    images: int,
    *,
    level: float = 3.0,
    by_seed: float = 0.1,
    by_image: float = 2.0,
    apart: float = 0.5,
) -> Bits:
    """(choices, seeds, images) of right answers; choices are equal over all seeds and all images.

    In logits, ``level`` is the mean; seeds, images and, by ``apart``, choices on single images scatter
    around it, the last as other test images would even out.
    """
    shared = by_image * generator.standard_normal(images)
    own = apart * generator.standard_normal((choices, 1, images))
    drawn = by_seed * generator.standard_normal((choices, seeds, 1))
    bits: Bits = level + shared + own + drawn + generator.logistic(size=(choices, seeds, images)) > 0
    return bits


def cells(seeds: int, studies: int) -> Iterator[tuple[float, float]]:
    """For each setting: the share of intervals of a difference that hold 0, and the mean ratio of half widths.

    The ratio is to the width with the squares of both errors added, which counts the rest twice.
    """
    for images, level, by_seed, apart in itertools.product(IMAGES, LEVELS, BY_SEED, APART):
        generator, held, ratios = np.random.default_rng([seeds, images]), 0, []
        for _ in range(studies):
            own, base = answers(generator, 2, seeds, images, level=level, by_seed=by_seed, apart=apart)
            found = of_table(own, base)
            assert found is not None
            held += abs(own.mean() - base.mean()) <= found.half
            ratios.append(found.error / np.hypot(found.by_seed, found.by_image))
        yield held / studies, float(np.mean(ratios))


def table(studies: int) -> str:
    lines = ["| seeds | median coverage (%) | least | error, to that of the sum |", "|---|---|---|---|"]
    for seeds in SEEDS:
        covered, ratios = zip(*cells(seeds, studies), strict=True)
        least, middle = 100 * min(covered), 100 * median(covered)
        lines.append(f"| {seeds} | {middle:.1f} | {least:.1f} | {min(ratios):.2f} to {max(ratios):.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=2000)
    studies = parser.parse_args().studies
    settings = len(IMAGES) * len(LEVELS) * len(BY_SEED) * len(APART)
    head = (
        f"{studies:,} simulated studies of two equal choices in each of {settings} settings a row "
        f"(`python scripts/docs/intervals.py --studies {studies}`):"
    )
    page = PAGE.read_text(encoding="utf-8")
    before, after = page.split(START)[0], page.split(END)[1]
    PAGE.write_text(f"{before}{START}\n\n{head}\n\n{table(studies)}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
