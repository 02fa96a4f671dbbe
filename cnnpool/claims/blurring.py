"""Operators that blur, each against the same without the blur."""

from collections.abc import Iterator

from cnnpool.claims.evidence import Evidence
from cnnpool.claims.judge import Contrast
from cnnpool.claims.operators import named

PAIRS = (("max_blur", "max"), ("conv_blur", "strided"), ("blur", "avg"), ("blur", "subsample"))
"""Zhang's: with a blur, and the same without."""


def against_plain(evidence: Evidence, *path: str, what: str, judged_by: str = "") -> Iterator[Contrast]:
    """The number at ``path`` of results.json with a blur less that without, for every pair of runs.

    Args:
        evidence: the runs.
        path: where the number stands.
        what: its name.
        judged_by: names it in the circumstance too, where a claim looks at several.
    """
    for blurring, plain in PAIRS:
        when = f"{blurring} takes the place of {plain}" + (f", judged by {judged_by}" if judged_by else "")
        for pair in evidence.pairs(named(blurring), named(plain), ["pool"], alike=["stride"]):
            yield Contrast(pair, pair.differences(*path), when, what)
