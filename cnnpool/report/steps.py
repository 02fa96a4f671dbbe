"""Rows of a table that are steps of a run, and so no runs."""

import re
from collections.abc import Collection, Iterable, Sequence

from cnnpool.report.logs import Row

STEPS = re.compile(r"(?i)epoch|step|iter|round")  # Columns that number the steps of a run, and not runs


def refuse_curves(rows: Sequence[Row], keys: Sequence[str], named: Collection[str]) -> None:
    """A ValueError if a column of a table rises from the same number in every group, as steps or seeds do."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if row.tags is None:
            groups.setdefault(tuple(row.facts.get(key, "") for key in keys), []).append(row)
    several = [own for own in groups.values() if len(own) > 1]
    for key in [key for key in rows[0].facts if key not in named] if several else []:
        steps = bool(STEPS.search(key))
        for order in (1, -1):
            parts = [part for own in several for part in _rising(row.facts[key] for row in own[::order])]
            least = 2 if len(parts) == len(several) else 3
            alike = len({part[0] for part in parts}) == 1 and min(map(len, parts)) >= least
            if alike and (steps or len(parts) > 1):
                name, ends = key or "the first column", f"{parts[0][0]:g} to {parts[0][-1]:g}"
                seeds = "" if steps else f"if it numbers the runs, --seed {key}; "
                raise ValueError(
                    f"{name} rises from {ends} in rows of one choice, {several[0][0].place} and below: "
                    f"{seeds}if they are steps of a run, keep its last; if it is a setting, name it in --by"
                )


def _rising(texts: Iterable[str]) -> list[list[float]]:
    """Numbers in parts that rise; empty if some text is none."""
    parts: list[list[float]] = []
    for text in texts:
        try:
            x = float(text)
        except ValueError:
            return []
        if parts and x > parts[-1][-1]:
            parts[-1].append(x)
        else:
            parts.append([x])
    return parts
