"""Settings of a run, as opposed to measurements: ``facts`` by dotted key."""

from typing import Any

from cnnpool.run_folder.results import NAMED, Results


def facts(results: Results) -> dict[str, Any]:
    """Dotted key -> value of everything about a run that was set rather than measured."""
    flat = {key: getattr(results, key) for key in ("data_sha256", "epochs", "deterministic")}
    for key in (*NAMED, "fit", "environment"):
        _flatten(getattr(results, key), key, flat)
    _flatten(exceptions(results), "stages", flat)
    _flatten(results.asked.get("probe") or {}, "probe", flat)
    invariance = results.measured.get("invariance", {})
    presets = invariance.get("consistency")
    if isinstance(presets, dict) and presets:
        # A preset that does not fit the network, as crops before a readout of fixed size, was asked for too.
        flat["invariance.consistency"] = sorted({*presets, *invariance.get("skipped", ())})
    return flat


def exceptions(results: Results) -> dict[str, Any]:
    """The stages whose operator is not the run's ``pool``.

    A stage that leaves options out has those of ``pool``: published networks were once recorded like that.
    """
    common = results.pool.items()
    return {stage: operator for stage, operator in results.stages.items() if not operator.items() <= common}


def recipe(results: Results) -> dict[str, Any]:
    """Those of ``facts`` that say how a run was trained and on which images, wherever these lie."""
    flat: dict[str, Any] = {}
    for key in ("data", "fit"):
        _flatten(getattr(results, key), key, flat)
    flat.pop("data.root", None)
    return flat


def _flatten(node: Any, prefix: str, into: dict[str, Any]) -> None:
    if isinstance(node, dict):
        for name, below in node.items():
            _flatten(below, f"{prefix}.{name}", into)
    else:
        into[prefix] = node
