"""``batch_covers``: does what one sample leaves out come back with the others?"""

from cnnpool.claims.case import Case
from cnnpool.claims.evidence import Evidence
from cnnpool.claims.judge import of_stage, over
from cnnpool.claims.operators import described
from cnnpool.claims.rules import at_least

NEARLY_ALL = 0.99


def batch_covers(evidence: Evidence) -> list[Case]:
    """Sparse as the gradient of each sample is, a batch reaches nearly all inputs of max pooling.

    Measured: the share of a max pooling stage's inputs that get gradient from at least one sample of the
    probe batch. Beside it what independent samples would reach, 1 - (1 - rho)^B. Where a window's largest
    values are equal, the first takes the gradient or all share it (ties=first, ties=split): judged apart.

    Rule: yes if the 95 % interval over seeds lies at or above 99 %, no if below.

    Needs: cnnpool train -m experiment=claims pool=max pool.ties=first,split
    seed=0,1,2,3,4,5,6,7,8,9
    """
    cases: list[Case] = []
    for stage in evidence.stages("max"):
        theory = stage.gradient("coverage_iid")
        cases += of_stage(
            stage,
            stage.gradient("coverage"),
            lambda s: at_least(s, NEARLY_ALL),
            when=f"{described(stage.operator)} works on {stage.setting.results.images_of}",
            what=f"inputs reached by {over(stage.gradient('samples')).mean:.0f} images",
            expected=f"independent: {100 * over(theory).mean:.2f} %" if theory else "",
        )
    return cases
