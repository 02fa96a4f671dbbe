"""Selection and order of scalars in TensorBoard: its first group, custom pages, the row of HParams."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from cnnpool.json_text import flat
from cnnpool.quantity import Quantity, find, from_records, numbers
from cnnpool.run_folder.results import NAMED, Results

FIRST = "a_first_look"  # Group of charts: TensorBoard sorts groups by name and opens the first ones
CURVES = ("val", "test", "train")  # Sections in which every number has a chart, by name side by side
SCORES = ("test.accuracy", "test.loss")
SIZE = "cost.parameters"


def charts(tag: str, quantity: Quantity | None) -> list[str]:
    """The chart names of a scalar: two for a headline, none for a number that is only in files."""
    section, _, name = tag.partition("/")
    if quantity is None:
        return [tag]
    if quantity.shown == "file" and section not in CURVES:
        return []
    first = f"{name}/{section}" if section in CURVES else tag
    return [tag, *([f"{FIRST}/{first}"] if _is_first(quantity) else [])]


def pages(tags: Iterable[str], quantities: Iterable[Quantity]) -> dict[str, list[str]]:
    """Title -> the ``tags`` on its page, headlines first: accuracy, and every section with a headline."""
    headlines = [one for one in quantities if _is_first(one)]
    found: dict[str, list[tuple[bool, int, str]]] = {}
    for tag in tags:
        section = tag.partition("/")[0]
        title = "accuracy" if section in (*CURVES, "epoch") else section
        place = CURVES.index(section) if section in CURVES else len(CURVES)
        found.setdefault(title, []).append((not any(one.has_tag(tag) for one in headlines), place, tag))
    shown = {title: sorted(own) for title, own in sorted(found.items()) if not min(own)[0]}
    return {title: [tag for *_, tag in own] for title, own in shown.items()}


def headlines(measured: Mapping[str, Any], quantities: Mapping[str, Any]) -> dict[str, float]:
    """Tag -> value of a run's main results: scores, headlines (of the first stage only), parameters."""
    declared = from_records(quantities)
    found: dict[str, tuple[str, float]] = {}
    for key, value in numbers(measured):
        one = find(declared, key)
        fixed = key in (*SCORES, SIZE)
        if value is None or not (fixed or (one and _is_first(one) and key.partition(".")[0] not in CURVES)):
            continue
        name = one.key if one and one.by_stage else key
        found.setdefault(name, (one.tag_of(key) if one else key.replace(".", "/"), value))
    order = sorted(found, key=lambda key: (key == SIZE, key not in SCORES))
    return dict(found[key] for key in order)


def settings(results: Results) -> dict[str, str | int | float]:
    """Every setting that decides the result, for a row of HParams; not the seed, over which it averages."""
    asked = {"fit": results.fit} | results.asked | {group: getattr(results, group) for group in NAMED}
    chosen = {group: node for group, node in asked.items() if node and group != "seed"}
    named = {key.removesuffix(".name"): value for key, value in flat(chosen)}
    plain = {
        key: one if isinstance(one, str | int | float) else json.dumps(one) for key, one in named.items()
    }
    return {key: value for key, value in plain.items() if value not in ("{}", "[]")}


def _is_first(quantity: Quantity) -> bool:
    """Whether it is shown at first sight; costs are not, since only reports show trade-offs."""
    return quantity.headline and not quantity.is_cost
