"""``blur_is_invariant``: is an anti-aliased network shift invariant?"""

from cnnpool.claims.case import Case
from cnnpool.claims.evidence import Evidence, Setting
from cnnpool.claims.judge import of_setting
from cnnpool.claims.operators import described, everywhere
from cnnpool.claims.rules import at_least

BLURS = ("blur", "max_blur", "conv_blur", "adaptive_blur")
POSITION_FREE = ("gap", "gmp", "avgmax", "catavgmax", "gem", "logsumexp", "attention", "simpool")
SAME = 0.999


def blur_is_invariant(evidence: Evidence) -> list[Case]:
    """Blurring before subsampling makes a network shift invariant.

    Measured: the share of images answered alike after two different circular shifts of up to 3 px
    (consistency, preset distinct) by networks that blur at every stage.

    Rule: yes if the 95 % interval over seeds lies at or above 99.9 %, no if below. Only with circular padding
    and a readout without positions could it be 100 %, so these are judged apart from the others.

    Needs: cnnpool train -m experiment=claims pool=blur,max_blur model.padding_mode=circular readout=gap
    seed=0,1,2,3,4,5,6,7,8,9
    """
    cases: list[Case] = []
    for setting in evidence.settings():
        operator = everywhere(next(iter(setting.runs.values())))
        if operator and operator["name"] in BLURS:
            cases += of_setting(
                setting,
                setting.read("invariance", "consistency", "distinct"),
                lambda s: at_least(s, SAME),
                when=_when(setting),
                where=f"{setting.label}: {described(operator)}",
                what="consistency (distinct)",
                expected="100 %",
            )
    return cases


def _when(setting: Setting) -> str:
    circular = setting.results.model.get("padding_mode") == "circular"
    free = setting.results.readout["name"] in POSITION_FREE
    if circular and free:
        return "padding is circular and the readout knows no positions"
    return "padding or readout see positions"
