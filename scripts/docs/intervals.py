"""Simulate intervals over seeds and test images, and write their coverage into docs/reliability.md.

usage: python scripts/docs/intervals.py [--studies 2000]
"""

import argparse

import numpy as np
from numpy.random import Generator

from cnnpool.report.statistics import Bits, of_table
from scripts.docs.pages import DOCS, filled, write

SEEDS, IMAGES = (3, 6, 10), 1000
KINDS = {
    "seeds alone differ": {"by_seed": 0.3, "apart": 0.0},
    "images too": {"by_seed": 0.2, "apart": 0.5},
    "images above all": {"by_seed": 0.05, "apart": 1.0},
    "neither: chance alone": {"by_seed": 0.0, "apart": 0.0},
}


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


def simulate(seeds: int, studies: int, **effects: float) -> tuple[float, float]:
    """Share of studies whose interval of a difference holds 0, and the error's mean ratio to another one.

    The other adds the squares of both parts and so counts the rest twice.
    """
    generator, held, ratios = np.random.default_rng(seeds), 0, []
    for _ in range(studies):
        own, base = answers(generator, 2, seeds, IMAGES, **effects)
        found = of_table(own, base)
        assert found is not None
        held += abs(own.mean() - base.mean()) <= found.half
        ratios.append(found.error / np.hypot(found.by_seed, found.by_image))
    return held / studies, float(np.mean(ratios))


def table(studies: int) -> str:
    lines = [
        "| what differs | seeds | interval holds 0 (%) | error, to that of the sum |",
        "|---|---|---|---|",
    ]
    for kind, effects in KINDS.items():
        for seeds in SEEDS:
            held, ratio = simulate(seeds, studies, **effects)
            lines.append(f"| {kind} | {seeds} | {100 * held:.1f} | {ratio:.2f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=2000)
    studies = parser.parse_args().studies
    head = (
        f"{studies:,} simulated studies a row of two equal choices, {IMAGES:,} test images "
        f"(`python scripts/docs/intervals.py --studies {studies}`):"
    )
    text = (DOCS / "reliability.md").read_text("utf-8")
    write("reliability.md", filled(text, "intervals", f"{head}\n\n{table(studies)}"))


if __name__ == "__main__":
    main()
