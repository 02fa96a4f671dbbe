"""Which scalars TensorBoard shows, and in which order: its first group, custom pages, the row of HParams."""

from collections.abc import Iterable, Mapping
from typing import Any

from cnnpool.quantity import Quantity, find, from_records, numbers

FIRST = "a_first_look"
"""The group of charts with the headlines: TensorBoard sorts groups by name and opens the first ones."""
CURVES = ("val", "test", "train")
"""Sections whose every number has a chart, those of one name beside each other."""
SCORES = ("test.accuracy", "test.loss")
SIZE = "cost.parameters"


def charts(tag: str, quantity: Quantity | None) -> list[str]:
    """The names under which a scalar has a chart: a headline has two, a number for files alone has none."""
    section, _, name = tag.partition("/")
    if quantity is None:
        return [tag]
    if quantity.shown == "file" and section not in CURVES:
        return []
    first = f"{name}/{section}" if section in CURVES else tag
    return [tag, *([f"{FIRST}/{first}"] if _is_first(quantity) else [])]


def pages(tags: Iterable[str], quantities: Iterable[Quantity]) -> dict[str, list[str]]:
    """Title -> the ``tags`` on its page, headlines first: accuracy, and every section that has a headline."""
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
    """Tag -> value of a run's main results: scores, headlines (of the first stage alone), parameters.

    Args:
        measured: section -> its numbers, as in results.json.
        quantities: what the probes declare of them.
    """
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


def _is_first(quantity: Quantity) -> bool:
    """Whether a first look shows it; of costs, reports alone show trade-offs."""
    return quantity.headline and not quantity.is_cost
