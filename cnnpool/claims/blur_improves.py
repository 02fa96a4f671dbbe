"""``blur_improves``: is an anti-aliased network at least more shift invariant?"""

from cnnpool.claims.blur_is_invariant import BLURS
from cnnpool.claims.case import Case
from cnnpool.claims.evidence import Evidence
from cnnpool.claims.judge import Contrast, of_contrasts
from cnnpool.claims.operators import named


def blur_improves(evidence: Evidence) -> list[Case]:
    """Blurring before subsampling makes a network's answers more consistent under shifts (Zhang 2019).

    Measured: consistency (preset distinct) of networks that blur less that of max pooling, paired by seed.

    Rule: yes if the difference is shown to be above 0, no if below: sign-flip test with Holm's correction
    over the cases, p < 0.05, and an interval without 0.

    Needs: cnnpool train -m experiment=claims pool=max,blur,max_blur seed=0,1,2,3,4,5,6,7,8,9
    """
    return of_contrasts(
        [
            Contrast(
                pair,
                pair.differences("invariance", "consistency", "distinct"),
                when=f"the operator is {name}",
                what="consistency (distinct)",
            )
            for name in BLURS
            for pair in evidence.pairs(named(name), named("max"), ["pool"], alike=["stride"])
        ]
    )
