"""Compare groups that do not differ through a table, and count the verdicts that say they do.

usage: python scripts/reliability/null_logs.py [COMPARISONS]

COMPARISONS (default 1,500) of each kind: 3, 6 or 10 pairs of runs by seed (a seed moves all groups alike) or
5, 6 or 10 runs without pairs, of which each has by turns 2 and 4 groups, and 5 against 10 runs of half their
spread. Fewer decide nothing. Prints a JSON object: the share of comparisons with a false verdict, at most
0.05 within what chance allows.
"""

import json
import random
import sys

from scipy.stats import binom

import cnnpool
from cnnpool.report.pairwise import SHOWN

KINDS = {f"paired, n={n}": (n, n, True) for n in (3, 6, 10)}
KINDS |= {f"unpaired, n={n}": (n, n, False) for n in (5, 6, 10)}
KINDS["unpaired, n=5 and 10"] = (5, 10, False)


def main(arguments: list[str]) -> int:
    comparisons = int(arguments[0]) if arguments else 1_500
    found = {kind: share(*sizes, comparisons) for kind, sizes in KINDS.items()}
    print(json.dumps({"comparisons": comparisons, "false verdicts": found}))
    return int(max(found.values()) > binom.ppf(0.999, comparisons, 0.05) / comparisons)


def share(few: int, many: int, paired: bool, comparisons: int) -> float:
    """The share of comparisons of groups of ``few`` and of ``many`` runs that hold a false verdict."""
    chance, wrong = random.Random(few), 0
    for place in range(comparisons):
        seeds = [chance.gauss(0.9, 0.01) for _ in range(many)]
        table: dict[str, list[float]] = {"group": [], "seed": [], "acc": []}
        for group in range(2 + 2 * (place % 2)):
            n = many if group % 2 else few
            spread = 0.01 if few == many or group % 2 else 0.02
            for seed in range(n):
                name = seed if paired else 100 * group + seed
                row = group, name, chance.gauss(seeds[seed] if paired else 0.9, spread)
                for column, cell in zip(table.values(), row, strict=True):
                    column.append(cell)
        found = cnnpool.compare(table, "acc", by="group", seed="seed")
        wrong += any(one["verdict"] in SHOWN for one in found)
    return wrong / comparisons


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
