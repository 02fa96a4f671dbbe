"""``routed_then_averaged``: is a batch's gradient routed once, or example by example?"""

from cnnpool.claims.case import Case
from cnnpool.claims.evidence import Evidence
from cnnpool.claims.judge import of_stage
from cnnpool.claims.rules import at_least, at_most

DIFFERENT = 0.01
DENSE = 0.01


def routed_then_averaged(evidence: Evidence) -> list[Case]:
    """Max pooling routes each example's gradient by itself; the mean over the batch is dense in the weights.

    Measured: at max pooling stages. First, inputs reached by the whole probe batch less inputs reached by one
    sample: 0 if a batch were routed as one. Second, the share of zeros in the batch's gradient for the
    filters before the stage.

    Rule: of the first, yes if the 95 % interval over seeds lies at or above 1 point, no if below; of the
    second, yes if it lies at or below 1 %, no if above.

    Needs: cnnpool train -m experiment=claims pool=max seed=0,1,2,3,4,5,6,7,8,9
    """
    cases: list[Case] = []
    for stage in evidence.stages("max"):
        zero, reached = stage.gradient("zero_fraction"), stage.gradient("coverage")
        cases += of_stage(
            stage,
            {seed: reached[seed] - (1 - zero[seed]) for seed in reached if seed in zero},
            lambda s: at_least(s, DIFFERENT),
            when="examples are compared",
            what="inputs reached, batch less one sample",
            expected="above 0",
            unit="points",
        )
        cases += of_stage(
            stage,
            stage.gradient("weights_before", "zero_fraction"),
            lambda s: at_most(s, DENSE),
            when="the mean is looked at in the weights",
            what="zeros in the weights' gradient",
            expected="0 %",
        )
    return cases
