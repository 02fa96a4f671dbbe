"""``average_is_clean``: does averaging before subsampling prevent aliasing?"""

from cnnpool.claims.case import Case
from cnnpool.claims.evidence import Evidence
from cnnpool.claims.judge import of_stage
from cnnpool.claims.rules import at_most

CLEAN = 0.001


def average_is_clean(evidence: Evidence) -> list[Case]:
    """Average pooling does not alias: it is a low-pass filter.

    Measured: alias energy ratio at an average pooling stage: energy of the output's difference to that after
    an ideal low-pass filter, divided by the output's energy; 0 without aliasing.

    Rule: yes if the 95 % interval over seeds lies at or below 0.1 %, no if above.

    Needs: cnnpool train -m experiment=claims pool=avg seed=0,1,2,3,4,5,6,7,8,9
    """
    cases: list[Case] = []
    for stage in evidence.stages("avg"):
        cases += of_stage(
            stage,
            stage.setting.read("aliasing", "stages", stage.name, "alias_energy_ratio"),
            lambda s: at_most(s, CLEAN),
            when=f"the map is that of stage {stage.name}",
            what="alias energy",
            expected="0 %",
        )
    return cases
