"""From a probe's nested result to flat TensorBoard tags."""

from collections.abc import Iterator, Mapping
from typing import Any

SETTINGS = {
    *("samples", "shift_samples", "map_samples", "stage_samples", "timed_samples", "batch", "seed"),
    *("repeats", "low", "high", "least_size", "worst_px", "max_shift_px", "per_px", "radius_px"),
    *("steps", "shifts"),
}
"""Numbers that were set, not measured."""


def scalars(section: str, result: Mapping[str, Any]) -> dict[str, float]:
    """The result's numbers by tag, ``section/quantity/where``; what is no number has no tag.

    ``gradient/zero_fraction/<stage>``, ``gradient/before_activation/zero_fraction/<stage>``,
    ``invariance/relative_change_1px/<stage>``, ``invariance/consistency/<preset>``, ``cost/parameters``, and
    so on. ``gradient`` holds a dictionary per stage, the other sections have them under ``stages``.
    """
    stages = result if section == "gradient" else result.get("stages", {})
    tags = {
        f"{section}/{name}/{stage}": value
        for stage, quantities in stages.items()
        for name, value in _numbers(quantities)
    }
    if section != "gradient":
        rest = {key: value for key, value in result.items() if key != "stages"}
        tags |= {f"{section}/{name}": value for name, value in _numbers(rest, by_px=False)}
    return tags


def _numbers(quantities: Mapping[str, Any], *, by_px: bool = True) -> Iterator[tuple[str, float]]:
    for name, value in quantities.items():
        if isinstance(value, Mapping):
            for inner, number in _numbers(value, by_px=by_px):
                yield (f"{name}_{inner}px" if by_px and inner.isdecimal() else f"{name}/{inner}"), number
        elif isinstance(value, int | float) and not isinstance(value, bool) and name not in SETTINGS:
            yield name, value
