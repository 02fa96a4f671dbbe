"""``max_is_sparse``: the textbook's 1 - 1/k^2."""

from functools import partial

from cnnpool.claims.case import Case
from cnnpool.claims.evidence import Evidence, Stage
from cnnpool.claims.judge import of_stage
from cnnpool.claims.operators import kernel_and_stride
from cnnpool.claims.rules import within

TOLERANCE = 0.01


def max_is_sparse(evidence: Evidence) -> list[Case]:
    """The gradient of max pooling over k x k windows is zero for 1 - 1/k² of its inputs.

    Measured: the share of the inputs of a max pooling stage that get no gradient from the loss, per sample. A
    ReLU that follows stops gradient too, so networks that pool before it are judged apart.

    Rule: yes if the 95 % interval over seeds lies within 1 point of 1 - 1/k², no if it lies outside.

    Needs: cnnpool train -m experiment=claims pool=max pool.kernel_size=2,3 seed=0,1,2,3,4,5,6,7,8,9
    """
    cases: list[Case] = []
    for stage in evidence.stages("max"):
        kernel, stride = kernel_and_stride(stage.operator)
        target = 1 - 1 / (kernel[0] * kernel[1])
        cases += of_stage(
            stage,
            stage.gradient("zero_fraction"),
            partial(within, target=target, tolerance=TOLERANCE),
            when=_when(kernel, stride, stage),
            what="inputs without gradient",
            expected=f"{100 * target:.2f} %",
        )
    return cases


def _when(kernel: tuple[int, int], stride: tuple[int, int], stage: Stage) -> str:
    windows = {True: "windows lie edge to edge", False: "windows overlap"}[kernel == stride]
    if any(s > k for k, s in zip(kernel, stride, strict=True)):
        windows = "windows leave gaps"
    ties = ", ties are split" if stage.operator.get("ties") == "split" else ""
    return windows + ties + (", a ReLU follows" if stage.relu_follows else "")
