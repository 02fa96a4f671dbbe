"""``blur_one_px``: does anti-aliasing help where a camera moves by a pixel and nothing is circular?"""

from cnnpool.claims.blurring import against_plain
from cnnpool.claims.case import Case
from cnnpool.claims.evidence import Evidence
from cnnpool.claims.judge import of_contrasts


def blur_one_px(evidence: Evidence) -> list[Case]:
    """Blurring before subsampling makes a network's answers more consistent under real one-pixel shifts.

    Measured: consistency between two crops of an image that lie at most one pixel apart each way (preset
    one_px, after Shifman & Weiss 2024: nothing enters at the border, nothing is circular), of an operator
    that blurs less that of the same without the blur, paired by seed: max_blur and max, conv_blur and
    strided, blur and avg, blur and subsample. It needs images of at least 16 x 16 pixels and a readout that
    takes crops, as gap does.

    Rule: yes if the difference is shown to be above 0, no if below: paired t test with Holm's correction
    over the cases, p < 0.05.

    Needs: cnnpool train -m experiment=claims readout=gap
    pool=max,max_blur,strided,conv_blur,avg,blur,subsample seed=0,1,2,3,4,5,6,7,8,9
    """
    path = ("invariance", "consistency", "one_px")
    return of_contrasts(against_plain(evidence, *path, what="consistency (one_px)"))
