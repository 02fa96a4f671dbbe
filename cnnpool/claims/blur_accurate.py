"""``blur_accurate``: does anti-aliasing make a network better at its task?"""

from cnnpool.claims.blurring import against_plain
from cnnpool.claims.case import Case
from cnnpool.claims.evidence import Evidence
from cnnpool.claims.judge import of_contrasts


def blur_accurate(evidence: Evidence) -> list[Case]:
    """Blurring before subsampling makes networks more accurate (Zhang 2019).

    Measured: test accuracy of an operator that blurs less that of the same without the blur, paired by seed:
    max_blur and max, conv_blur and strided, blur and avg, blur and subsample.

    Rule: yes if the difference is shown to be above 0, no if below: paired t test with Holm's correction
    over the cases, p < 0.05.

    Needs: cnnpool train -m experiment=claims pool=max,max_blur,strided,conv_blur,avg,blur,subsample
    seed=0,1,2,3,4,5,6,7,8,9
    """
    return of_contrasts(against_plain(evidence, "test", "accuracy", what="test accuracy"))
