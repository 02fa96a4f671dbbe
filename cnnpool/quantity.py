"""A measured number described once: name, unit, range, better direction and definition."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import cache, cached_property, partial
from typing import Any, Literal

from cnnpool.json_text import finite, flat, validated

Range = tuple[float | None, float | None]

Shown = Literal["compare", "probe", "file"]
PLACEHOLDER = re.compile(r"<(\w+)>")
BETTER = {
    "lower": ("loss|error|perplexity|regret", "err|nll|ppl|r?mse|mae|wer|cer|fid|bpc"),
    "higher": (
        "acc|score|precision|recall|reward|return|bleu|rouge|psnr|ssim|dice|auc|auroc",
        "f1|m?ap|m?iou|r2|top.?[15]",
    ),
}
"""The better direction of a metric by parts of its name, and by short words that stand by themselves."""


@dataclass(frozen=True)
class Quantity:
    """One number reported by a run.

    Args:
        key: its dotted place in ``results.json``. ``<stage>``, ``<px>`` or another word in angle brackets is
            a placeholder for one part; a probe declares the key below its own section.
        title: its name in tables and charts; placeholders of ``key`` may occur in it.
        definition: one or two sentences for glossaries: what is counted and what it is divided by.
        form: display format. ``fraction``: in per cent. ``count``: shortened with k, M, G. ``ratio``: with
            four decimals, ``hundredths``: with two. ``number``: with four digits.
        unit: unit of the displayed value; a fraction needs none.
        better: the better direction, or none.
        range: the smallest and largest possible value; intervals are clipped to it.
        stages: how the values of several stages are combined.
        seeds: ``mean``: varies from seed to seed. ``same``: depends on the architecture alone.
        shown: ``compare``: a column in every comparison. ``probe``: printed by ``cnnpool probe``.
            ``file``: in files only.
        timed: it depends on the machine's load.
        headline: shown at first sight: in TensorBoard's first group of charts, the page of its section, the
            row of HParams, and a figure of the report; a cost only in a trade-off of the report.
    """

    key: str
    title: str
    definition: str
    _: KW_ONLY
    form: Literal["fraction", "count", "ratio", "hundredths", "number"] = "number"
    unit: str = ""
    better: Literal["higher", "lower"] | None = None
    range: Range = (None, None)
    stages: Literal["mean", "sum", "max", "min"] = "mean"
    seeds: Literal["mean", "same"] = "mean"
    shown: Shown = "probe"
    timed: bool = False
    headline: bool = False

    def below(self, section: str) -> "Quantity":
        """The same quantity with its key below ``section``."""
        return replace(self, key=f"{section}.{self.key}")

    @property
    def by_stage(self) -> bool:
        return "<stage>" in self.key

    @property
    def by_px(self) -> bool:
        return "<px>" in self.key

    @property
    def is_cost(self) -> bool:
        """Whether it is a cost of the network, size or time; tables show costs last."""
        return self.seeds == "same" or self.timed

    @cached_property
    def tag(self) -> str:
        """Its tag in TensorBoard, ``section/quantity/where``, with the placeholders of ``key``."""
        section, *rest = [part for part in self.key.split(".") if part != "stages"]
        name = "/".join(part for part in rest if part != "<stage>").replace("/<px>", "_<px>px")
        return "/".join([section, *([name] if name else []), *(["<stage>"] if self.by_stage else [])])

    def values(self, key: str) -> dict[str, str] | None:
        """The values of the placeholders in ``key``; None if the key does not match this quantity."""
        return _values(self.key, key, r"[^.]+")

    def filled(self, values: Mapping[str, str]) -> str:
        return _filled(self.key, values)

    def tag_of(self, key: str) -> str:
        return _filled(self.tag, self.values(key) or {})

    def has_tag(self, tag: str) -> bool:
        return _values(self.tag, tag, r"[^/]+") is not None

    def title_of(self, key: str) -> str:
        """The name of the number at ``key``, with its stage or with how all stages are combined."""
        values = dict(self.values(key) or {})
        stage = values.pop("stage", "")
        where = {"": "", "*": f", {self.stages} of stages"}.get(stage, f", stage {stage}")
        return _filled(self.title, {k: value.replace("_", " ") for k, value in values.items()}) + where

    @property
    def shown_unit(self) -> str:
        return "%" if self.form == "fraction" else self.unit

    def format(self, value: float, *, sign: bool = False) -> str:
        """Format ``value`` without its unit; NaN as such."""
        if math.isnan(value):
            return "NaN"
        plus = "+" if sign else ""
        match self.form:
            case "fraction":
                return f"{100 * value:{plus}.2f}"
            case "count":
                return short(value, plus)
            case "ratio" | "hundredths":
                places = 4 if self.form == "ratio" else 2
                small = 0 < abs(value) < 0.5 / 10**places
                return f"{value:{plus}.0e}" if small else f"{value:{plus}.{places}f}"
        return f"{value:{plus}.4g}"

    def record(self) -> dict[str, Any]:
        """The entry in ``results.json`` under the key: every field that differs from its default."""
        differing = [one.name for one in fields(self) if getattr(self, one.name) != one.default]
        found: dict[str, Any] = finite({name: getattr(self, name) for name in differing if name != "key"})
        return found


fraction = partial(Quantity, form="fraction", range=(0.0, 1.0))
ratio = partial(Quantity, form="ratio", range=(0.0, None))
count = partial(Quantity, form="count", range=(0.0, None))
score = partial(fraction, better="higher")
deviation = partial(ratio, better="lower")


def by_name(metric: str) -> str | None:
    """The better direction of ``metric``, lower or higher, by its name; None if that says neither."""
    for way, (parts, words) in BETTER.items():
        alone = rf"(?:(?<![A-Za-z])|(?<=[a-z])(?=[A-Z]))(?i:{words})(?![a-z])"
        if re.search(rf"(?i:{parts})|{alone}", metric):
            return way
    return None


def from_records(records: Mapping[str, Any]) -> list[Quantity]:
    """The quantities in a run's ``results.json``; unreadable entries are skipped."""
    found = []
    for key, record in records.items():
        if isinstance(record, Mapping):
            ends = record.get("range", (None, None))
            with suppress(ValueError):
                own = {"key": key, "range": tuple(ends) if isinstance(ends, list) else ends}
                found.append(validated(Quantity, {**record, **own}))
    return found


def find(quantities: Iterable[Quantity], key: str) -> Quantity | None:
    """The first of ``quantities`` that matches ``key``, in which ``*`` stands for all stages."""
    return next((one for one in quantities if one.values(key) is not None), None)


def records(quantities: Sequence[Quantity], results: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Key -> record of each of ``quantities`` for which ``results`` hold a number."""
    found = {one.key for key, _ in numbers(results) if (one := find(quantities, key))}
    filled = [
        replace(one, definition=_filled(one.definition, results.get(one.key.partition(".")[0], {})))
        for one in quantities
        if one.key in found
    ]
    return {one.key: one.record() for one in filled}


def numbers(node: Any) -> list[tuple[str, float | None]]:
    """Dotted key and value of every number below ``node``; None where it is null."""
    return [(key, value) for key, value in flat(node) if value is None or is_number(value)]


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def short(value: float, plus: str = "") -> str:
    """``value`` with three digits, and from a thousand on with k, M, G or T behind a space."""
    if not math.isfinite(value):
        return f"{value:{plus}}"
    for power, letter in ((12, " T"), (9, " G"), (6, " M"), (3, " k")):
        if abs(value) >= 0.9995 * 10**power:
            scaled = value / 10**power
            digits = max(0, 2 - math.floor(math.log10(max(abs(scaled), 1))))
            return f"{scaled:{plus}.{digits}f}{letter}"
    return f"{value:{plus}.0f}" if float(value).is_integer() else f"{value:{plus}.3g}"


def _filled(text: str, values: Mapping[str, Any]) -> str:
    return PLACEHOLDER.sub(lambda found: str(values.get(found[1], found[0])), text)


def _values(text: str, whole: str, part: str) -> dict[str, str] | None:
    """The values that the placeholders of ``text`` have in ``whole``; None if it does not match."""
    if "<" not in text:
        return {} if text == whole else None
    found = _pattern(text, part).fullmatch(whole)
    return found and found.groupdict()


@cache
def _pattern(text: str, part: str) -> re.Pattern[str]:
    pieces = PLACEHOLDER.split(text)
    # Even parts are text, odd parts are names of placeholders.
    return re.compile(
        "".join(f"(?P<{piece}>{part})" if i % 2 else re.escape(piece) for i, piece in enumerate(pieces))
    )
