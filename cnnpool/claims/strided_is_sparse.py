"""``strided_is_sparse``: does striding waste gradient as well?"""

from cnnpool.claims.case import Case
from cnnpool.claims.evidence import Evidence, Stage
from cnnpool.claims.judge import of_stage
from cnnpool.claims.operators import kernel_and_stride
from cnnpool.claims.rules import at_least

SPARSE = 0.05
CONVOLUTIONS = ("strided", "depthwise", "patchify", "subsample")


def strided_is_sparse(evidence: Evidence) -> list[Case]:
    """A strided convolution, too, passes gradient to a part of its inputs only.

    Measured: the share of the inputs of a strided convolution that get no gradient from the loss, per sample.
    Plain subsampling counts as the strided 1 x 1 convolution that it is. A ReLU that follows stops gradient
    too, so operators and networks that have one there are judged apart.

    Rule: yes if the 95 % interval over seeds lies above 5 %, no if below.

    Needs: cnnpool train -m experiment=claims pool=strided,depthwise pool.activation=none
    seed=0,1,2,3,4,5,6,7,8,9; and pool=patchify,subsample
    """
    cases: list[Case] = []
    for stage in evidence.stages(*CONVOLUTIONS):
        cases += of_stage(
            stage,
            stage.gradient("zero_fraction"),
            lambda s: at_least(s, SPARSE),
            when=_when(stage),
            what="inputs without gradient",
            expected="above 5 %",
        )
    return cases


def _when(stage: Stage) -> str:
    kernel, stride = kernel_and_stride(stage.operator)
    if stage.operator["name"] == "subsample":
        kernel = (1, 1)
    covered = all(k >= s for k, s in zip(kernel, stride, strict=True))
    relu = ", a ReLU follows" if stage.relu_follows else ""
    return f"the kernel is {'no smaller' if covered else 'smaller'} than the stride{relu}"
