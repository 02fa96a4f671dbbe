"""``max_over_average``: is max the more invariant of the two?"""

from cnnpool.claims.case import Case
from cnnpool.claims.evidence import Evidence, Pair
from cnnpool.claims.judge import Contrast, of_contrasts
from cnnpool.claims.operators import named


def max_over_average(evidence: Evidence) -> list[Case]:
    """Max pooling is more invariant to small shifts than average pooling.

    Measured: max less average of the same kernel and stride, paired by seed: the relative change of each
    stage's output under a shift of the image by 1 px (lower is more invariant), and the share of images
    answered alike after two different shifts (consistency, higher is more invariant).

    Rule: yes if the difference is shown to lie on max's side, no if on the other: paired t test with Holm's
    correction over the cases, p < 0.05.

    Needs: cnnpool train -m experiment=claims pool=max,avg seed=0,1,2,3,4,5,6,7,8,9
    """
    return of_contrasts(
        [
            Contrast(pair, pair.differences(*path), when, what, sense, unit)
            for pair in evidence.pairs(named("max"), named("avg"), ["pool"], alike=["kernel_size", "stride"])
            for when, what, path, sense, unit in _measures(pair)
        ]
    )


def _measures(pair: Pair) -> list[tuple[str, str, tuple[str, ...], int, str]]:
    """When, what, where in results.json, the sign that speaks for max, unit."""
    stages = next(iter(pair.first.values())).results.stages
    inside = ("invariance", "stages")
    changes = [
        (f"measured at stage {stage}", "relative change", (*inside, stage, "relative_change", "1"), -1, "")
        for stage in stages
    ]
    path = ("invariance", "consistency", "distinct")
    return [*changes, ("measured at the answer", "consistency (distinct)", path, 1, "points")]
