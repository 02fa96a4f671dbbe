"""Cases from numbers by seed: ``of_stage`` for one choice, ``of_contrasts`` for pairs of choices."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from cnnpool.claims.case import Case
from cnnpool.claims.evidence import Pair, Setting, Stage
from cnnpool.claims.rules import signs
from cnnpool.report.statistics import Summary, summarise

Values = Mapping[int, float]


@dataclass(frozen=True)
class Contrast:
    """A measure of two choices, first less second by seed; the claim is that it has the sign ``sense``."""

    pair: Pair
    differences: Values
    when: str
    what: str
    sense: int = 1
    unit: str = "points"


def over(values: Values) -> Summary:
    """Mean, spread and interval of values by seed."""
    return summarise(list(values.values()))


def of_setting(
    setting: Setting,
    values: Values,
    rule: Callable[[Summary], bool | None],
    *,
    when: str,
    where: str,
    what: str,
    expected: str,
    unit: str = "%",
) -> list[Case]:
    """The case that ``values`` make by ``rule``; none without values."""
    if not values:
        return []
    summary = over(values)
    runs = tuple(setting.runs[seed] for seed in values)
    return [Case(when, where, what, summary, values, rule(summary), runs, unit, expected)]


def of_stage(
    stage: Stage,
    values: Values,
    rule: Callable[[Summary], bool | None],
    *,
    when: str,
    what: str,
    expected: str,
    unit: str = "%",
) -> list[Case]:
    """As ``of_setting``, of one stage."""
    return of_setting(
        stage.setting, values, rule, when=when, where=stage.where, what=what, expected=expected, unit=unit
    )


def of_contrasts(contrasts: Iterable[Contrast]) -> list[Case]:
    """Yes where the difference is shown to have the claim's sign, no where the other one.

    Shown as in ``cnnpool.claims.rules.signs``, the contrasts being the family of the correction.
    """
    shared = [one for one in contrasts if one.differences]
    shown = signs([list(one.differences.values()) for one in shared])
    return [
        Case(
            when=one.when,
            where=one.pair.label,
            what=one.what,
            summary=over(one.differences),
            values=one.differences,
            holds=None if sign == 0 else sign == one.sense,
            runs=one.pair.runs(one.differences),
            unit=one.unit,
            expected="above 0" if one.sense > 0 else "below 0",
        )
        for one, sign in zip(shared, shown, strict=True)
    ]
