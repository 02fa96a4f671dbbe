"""``max_wins``: is max pooling the more accurate choice?"""

from cnnpool.claims.case import Case
from cnnpool.claims.evidence import Evidence
from cnnpool.claims.judge import Contrast, of_contrasts
from cnnpool.claims.operators import named


def max_wins(evidence: Evidence) -> list[Case]:
    """Networks with max pooling are more accurate than those with average pooling.

    Measured: test accuracy with max less that with average pooling of the same kernel and stride, paired by
    seed.

    Rule: yes if the difference is shown to be above 0, no if below: paired t test with Holm's correction
    over the cases, p < 0.05.

    Needs: cnnpool train -m experiment=claims pool=max,avg seed=0,1,2,3,4,5,6,7,8,9
    """
    return of_contrasts(
        [
            Contrast(
                pair,
                pair.differences("test", "accuracy"),
                when=f"the network is {next(iter(pair.first.values())).results.model['name']}",
                what="test accuracy",
            )
            for pair in evidence.pairs(named("max"), named("avg"), ["pool"], alike=["kernel_size", "stride"])
        ]
    )
