"""``strided_instead``: the four columns of 'Striving for Simplicity'."""

from dataclasses import replace

from cnnpool.claims.case import Case
from cnnpool.claims.evidence import Evidence
from cnnpool.claims.judge import Contrast, of_contrasts
from cnnpool.claims.operators import named
from cnnpool.report.statistics import LEAST_PAIRS

LOSS = 0.005
COLUMNS = (
    ("subsample", "max", "the stride moves into the convolution before (Strided-CNN)"),
    ("strided", "max", "a strided convolution takes the place of pooling (All-CNN)"),
    ("strided", "conv_pool", "All-CNN is compared with a pooling network of as many layers (ConvPool-CNN)"),
)


def strided_instead(evidence: Evidence) -> list[Case]:
    """Max pooling can be replaced by a convolution with stride at no loss of accuracy (Springenberg 2015).

    Measured: test accuracy of the replacement less that of the pooling network of the same stride, paired by
    seed, for the columns of the paper's Table 3. All-CNN adds a convolution; ConvPool-CNN adds the same and
    still pools.

    Rule: no if the replacement is shown to be worse (paired t test with Holm's correction over the cases,
    p < 0.05); yes if it is not, and the 95 % interval of 6 or more pairs excludes a loss of
    0.5 points.

    Needs: cnnpool train -m experiment=claims_allconv pool=max,subsample,conv_pool,strided
    seed=0,1,2,3,4,5,6,7,8,9
    """
    contrasts = [
        Contrast(pair, pair.differences("test", "accuracy"), when, "test accuracy")
        for new, old, when in COLUMNS
        for pair in evidence.pairs(named(new), named(old), ["pool"], alike=["stride"])
    ]
    return [replace(case, holds=_no_loss(case), expected="no loss") for case in of_contrasts(contrasts)]


def _no_loss(case: Case) -> bool | None:
    """Whether a loss is excluded, be it better or not."""
    if case.holds is False:
        return False
    return True if case.summary.n >= LEAST_PAIRS and case.summary.low > -LOSS else None
