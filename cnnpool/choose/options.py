"""The options of ``cnnpool choose``, read from ``choose.KEY=VALUE`` and checked by their types."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import Ge, Le, MinLen

from cnnpool.cli_parser import plain
from cnnpool.registry import check_fields, did_you_mean, options_of
from cnnpool.report.pairwise import MARGIN, as_margin

UNITS = {"s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
MOST_ROUNDS = 200
LISTS = ("pools", "tune")
TRIES = re.compile(r"([\w./@]+):\[([^\[\]]+)\]")
RECIPE = re.compile(
    r"(fit|trainer|callback|readout)\b.*|(model|pool|stage)\..+"
    r"|data\.(batch_size|crop|shift|flip|random_resized_crop|auto_augment|color_jitter|mixup|cutmix)"
)
"""Keys that may be tuned: the best of several seeds would be luck, and other images another comparison."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How candidates are compared, and for how long.

    Args:
        budget: time that all runs together may take, such as 90s, 30min, 2h or 1d.
        pools: candidates: operators by name, with options as in max+kernel_size=3, at least two
            (one where the network exists already, since keep is added).
        metric: accuracy (on the validation images, where there are any), consistency, worst_shift, or the
            dotted key of a number in results.json.
        margin: largest difference that does not matter: a share of the errors of the baseline (keep where the
            network exists already, else the first candidate), the mean of its first three runs, or a number
            in the metric's unit: 0.005 is half a point.
        rounds: the most seeds of each candidate; fewer are planned if the budget is short.
        cost: by which the cheapest candidate that is not worse is found: flops, parameters, memory, time, or
            the dotted key of a number in results.json of which less is better.
        limit: leave out candidates that cost more than this many times the cheapest one; null: none.
        tune: values of a recipe that each candidate first tries on validation images, as in
            fit.lr:[0.003,0.01,0.03].
        out: folder of the study; null: named after data, model and settings below the output root.
    """

    budget: str = "1h"
    pools: Annotated[tuple[str, ...], MinLen(1)] = ("max", "avg", "blur", "max_blur", "strided", "conv_pool")
    metric: str = "accuracy"
    margin: str = MARGIN
    rounds: Annotated[int, Ge(3), Le(MOST_ROUNDS)] = 50
    cost: str = "flops"
    limit: Annotated[float, Ge(1), Le(10**6)] | None = None
    tune: tuple[str, ...] = ()
    out: str | None = None

    def __post_init__(self) -> None:
        check_fields(self, "choose")
        duration(self.budget)
        if self.margin != "0":
            try:
                as_margin(self.margin)
            except ValueError as error:
                raise ValueError(f"choose.margin={error}") from None
        same = sorted({one for one in self.pools if self.pools.count(one) > 1})
        if same:
            raise ValueError(f"choose.pools names {same[0]} more than once")
        tries(self.tune)

    @property
    def budget_s(self) -> float:
        return duration(self.budget)


def parse(settings: Iterable[str]) -> Options:
    """The options, from ``choose.KEY=VALUE``."""
    values: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        key = name.removeprefix("choose.")
        if key == name or not equals:
            raise ValueError(f"{setting}: expected choose.KEY=VALUE")
        if key not in options_of(Options):
            raise ValueError(f"{name}: no such option; {did_you_mean(key, options_of(Options))}")
        values[key] = split(text) if key in LISTS else plain(text)
    # A bare number is not a duration, and is refused as one.
    for key in {"budget", "margin"} & values.keys():
        values[key] = values[key] if isinstance(values[key], str) else f"{values[key]:g}"
    return Options(**values)


def duration(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]+)", text.strip())
    if not found or found[2] not in UNITS or not 0 < float(found[1]) * UNITS[found[2]] <= 366 * 86400:
        raise ValueError(
            f"choose.budget={text} is not a length of time; give one such as 90s, 30min, 2h or 1d"
        )
    return float(found[1]) * UNITS[found[2]]


def tries(tune: Iterable[str]) -> dict[str, list[str]]:
    """Key -> the values to try, from ``KEY:[VALUE,VALUE,...]``."""
    found = {}
    for one in tune:
        match = TRIES.fullmatch(one.strip())
        values = [value.strip() for value in match[2].split(",") if value.strip()] if match else []
        if not match or len(set(values)) < 2:
            raise ValueError(
                f"choose.tune={one}: give a key and two values or more, as in fit.lr:[0.003,0.01,0.03]"
            )
        if not RECIPE.fullmatch(match[1]):
            raise ValueError(
                f"choose.tune={one}: {match[1]} is no setting of the recipe, such as fit.lr, "
                "and so the same for every candidate"
            )
        found[match[1]] = list(dict.fromkeys(values))
    return found


def split(text: str) -> list[str]:
    """Split at commas outside brackets: ``a,b:[1,2]``; removes brackets around the whole text."""
    text = text.strip()
    if text in ("", "null", "[]"):
        return []
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    return [part.strip() for part in re.split(r",(?![^\[]*\])", text) if part.strip()]
