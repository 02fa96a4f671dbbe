"""``small_shifts``: invariance below the size of the window."""

from cnnpool.claims.case import Case
from cnnpool.claims.evidence import Evidence
from cnnpool.claims.judge import of_stage
from cnnpool.claims.operators import kernel_and_stride
from cnnpool.claims.rules import at_least

INVARIANT = 0.99


def small_shifts(evidence: Evidence) -> list[Case]:
    """Max pooling does not notice shifts that are smaller than its window.

    Measured: the share of a max pooling stage's outputs that stay the same to the last bit when its input map
    moves by d of its own pixels, d below the window's size, mean over the four directions. Beside it what
    independent equally distributed values would give, q / (2 k² - q) with q = k (k - d).

    Rule: yes if the 95 % interval over seeds lies at or above 99 %, no if below.

    Needs: cnnpool train -m experiment=claims pool=max pool.kernel_size=2,3 seed=0,1,2,3,4,5,6,7,8,9
    """
    cases: list[Case] = []
    for stage in evidence.stages("max"):
        (height, width), _ = kernel_and_stride(stage.operator)
        for d in range(1, min(height, width)):
            law = (_unchanged(height, width, d) + _unchanged(width, height, d)) / 2
            cases += of_stage(
                stage,
                stage.invariance("unchanged_outputs", str(d)),
                lambda s: at_least(s, INVARIANT),
                when=f"{d} px of a {height} x {width} window",
                what=f"outputs unchanged by {d} px",
                expected=f"100 %; independent values: {100 * law:.1f} %",
            )
    return cases


def _unchanged(along: int, across: int, d: int) -> float:
    """Probability that the maximum of a window is also that of the window d further along."""
    shared = max(along - d, 0) * across
    return shared / (2 * along * across - shared)
