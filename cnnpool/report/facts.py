"""What was set about a run rather than measured: ``facts`` by dotted key."""

from collections.abc import Mapping
from typing import Any

from cnnpool.report.runs import NAMED

UNSET = "unset"


def facts(results: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted key -> value of everything about a run that was set rather than measured."""
    flat = {key: results.get(key) for key in ("data_sha256", "epochs", "deterministic")}
    for key in (*NAMED, "fit", "environment"):
        flat |= _flatten(results.get(key, {}), key)
    flat |= _flatten(exceptions(results), "stages")
    asked = results.get("asked")
    if isinstance(asked, Mapping):
        flat |= _flatten(asked.get("probe") or {}, "probe")
    presets = results.get("invariance", {}).get("consistency")
    if isinstance(presets, dict) and presets:
        flat["invariance.consistency"] = sorted(presets)
    return flat


def exceptions(results: Mapping[str, Any]) -> dict[str, Any]:
    """The stages whose operator is not the run's ``pool``."""
    return {
        stage: operator
        for stage, operator in results.get("stages", {}).items()
        if operator != results["pool"]
    }


def value_at(results: Mapping[str, Any], key: str) -> Any:
    """What ``key`` of ``--by`` or ``--where`` stands for: a fact, or a whole room such as pool."""
    if key == "pool":
        return {"pool": results["pool"], "stages": exceptions(results)}
    if key == "seed" or (key in NAMED and isinstance(results.get(key), dict)):
        return results[key]
    return facts(results).get(key, UNSET)


def _flatten(node: Any, prefix: str) -> dict[str, Any]:
    if not isinstance(node, Mapping):
        return {prefix: node}
    return {
        key: value
        for name, below in node.items()
        for key, value in _flatten(below, f"{prefix}.{name}").items()
    }
