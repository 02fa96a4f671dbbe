"""From a probe's nested result to flat TensorBoard tags."""

from typing import Any


def scalars(section: str, result: dict[str, Any]) -> dict[str, float]:
    """The result's numbers by tag, ``section/quantity/where``.

    ``gradient/zero_fraction/<stage>``, ``invariance/relative_change_1px/<stage>``,
    ``invariance/consistency/<preset>``, ``cost/parameters`` and so on.
    """
    tags: dict[str, float] = {}
    for key, value in result.items():
        if key == "stages":
            for stage, quantities in value.items():
                tags |= _stage(section, stage, quantities)
        elif isinstance(value, dict) and section == "gradient":
            tags |= _stage(section, key, value)
        elif isinstance(value, dict):
            tags |= {f"{section}/{key}/{name}": number for name, number in value.items()}
        elif isinstance(value, int | float) and key not in ("samples", "seed"):
            tags[f"{section}/{key}"] = value
    return tags


def _stage(section: str, stage: str, quantities: dict[str, Any]) -> dict[str, float]:
    tags = {}
    for name, value in quantities.items():
        if isinstance(value, dict):
            tags |= {f"{section}/{name}_{px}px/{stage}": number for px, number in value.items()}
        elif name != "samples":
            tags[f"{section}/{name}/{stage}"] = value
    return tags
