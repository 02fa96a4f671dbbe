"""``overlap_regularises``: do overlapping windows overfit less?"""

from collections.abc import Callable

from cnnpool.claims.case import Case
from cnnpool.claims.evidence import Evidence, value_at
from cnnpool.claims.judge import Contrast, of_contrasts
from cnnpool.claims.operators import described, everywhere, kernel_and_stride
from cnnpool.report.runs import Run


def overlap_regularises(evidence: Evidence) -> list[Case]:
    """Overlapping pooling windows make a network overfit less (Krizhevsky 2012).

    Measured: accuracy on the training images, as it was while learning from them in the last epoch, less that
    on the test images; with overlapping windows less without, same operator and stride, paired by seed.

    Rule: yes if the gap is shown to be smaller with overlap, no if larger: paired t test with Holm's
    correction over the cases, p < 0.05.

    Needs: cnnpool train -m experiment=claims pool=max,avg pool.stride=2 pool.kernel_size=2,3
    seed=0,1,2,3,4,5,6,7,8,9
    """
    return of_contrasts(
        [
            Contrast(pair, pair.differences_of(_gap), f"{name} pooling", "train less test accuracy", -1)
            for name in ("max", "avg")
            for pair in evidence.pairs(
                _windows(name, True), _windows(name, False), ["pool"], alike=["stride"]
            )
        ]
    )


def _gap(run: Run) -> float | None:
    train, test = value_at(run, "train", "accuracy"), value_at(run, "test", "accuracy")
    return None if train is None or test is None else train - test


def _windows(name: str, overlapping: bool) -> Callable[[Run], str]:
    def side(run: Run) -> str:
        operator = everywhere(run)
        if operator is None or operator["name"] != name:
            return ""
        kernel, stride = kernel_and_stride(operator)
        overlaps = any(k > s for k, s in zip(kernel, stride, strict=True))
        # Windows with gaps belong to neither side.
        return described(operator) if overlaps == overlapping and (overlaps or kernel == stride) else ""

    return side
