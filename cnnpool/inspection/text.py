"""An examination as text for the terminal."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cnnpool import tables

NONE = "–"


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def ratio(value: float) -> str:
    return f"{value:.3f}" if value == 0 or abs(value) >= 1e-3 else f"{value:.0e}"


Column = tuple[str, str, str, Callable[[Any], str]]
"""Header, section, dotted key within a stage, and how a value is written."""

ROUTING: tuple[Column, ...] = (
    ("zero gradient %", "gradient", "zero_fraction", percent),
    ("before ReLU %", "gradient", "before_activation.zero_fraction", percent),
    ("covered %", "gradient", "coverage", percent),
    ("tied %", "gradient", "tied_windows", percent),
    ("zero windows %", "gradient", "zero_windows", percent),
    ("ties", "gradient", "ties", str),
    ("participation", "gradient", "participation_ratio", ratio),
    ("phase imbalance", "gradient", "phase_imbalance", ratio),
)
SHIFTS: tuple[Column, ...] = (
    ("change 1 px", "invariance", "relative_change.1", ratio),
    ("unchanged %", "invariance", "unchanged_outputs.1", percent),
    ("equivariance err.", "equivariance", "equivariance_error", ratio),
    ("alias energy %", "aliasing", "alias_energy_ratio", percent),
    ("Lie derivative", "lie", "relative_lie_derivative", ratio),
    ("ERF px", "receptive_field", "effective_px", "{:.1f}".format),
    ("forward us", "cost", "forward_us", "{:.1f}".format),
    ("backward us", "cost", "backward_us", "{:.1f}".format),
)

LINES: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("worst-shift accuracy", "invariance.worst_shift_accuracy", lambda v: percent(v) + " %"),
    ("mean-shift accuracy", "invariance.mean_shift_accuracy", lambda v: percent(v) + " %"),
    ("consistency given correct", "invariance.consistency_given_correct", lambda v: percent(v) + " %"),
    ("all-shifts consistency", "all_shifts.consistency", lambda v: percent(v) + " %"),
    ("P(top-1 change), diagonal", "diagonal.top1_change", lambda v: percent(v) + " %"),
    ("adversarial shift accuracy", "adversarial.accuracy", lambda v: percent(v) + " %"),
    ("sensitivity at 1 px", "sensitivity.radial.1", ratio),
    ("gradient noise scale", "noise.noise_scale", "{:.1f} images".format),
    ("parameters", "cost.parameters", "{:,}".format),
    ("FLOPs per image", "cost.flops", "{:,}".format),
    ("kept for backward", "cost.saved_bytes", "{:,} bytes per image".format),
    ("forward", "cost.forward_images_per_s", "{:,.0f} images/s".format),
)


def report(results: Mapping[str, Any]) -> str:
    """The results of one examination: what was examined, a table of its stages, and the whole model."""
    examined = results["examined"]
    head = [("model", examined["model"]), ("weights", examined["weights"]), ("data", examined["images"])]
    head += [("swapped", examined["swapped"])] if examined.get("swapped") else []
    head += [("labels", examined["labels"])] if examined.get("labels") else []
    if "test" in results:
        test = results["test"]
        head.append(
            ("accuracy", f"{percent(test['accuracy'])} %, loss {test['loss']:.4f} (n={test['samples']})")
        )
    blocks = [_pairs(head)]
    if results["stages"]:
        blocks += [_stages(results, columns) for columns in (ROUTING, SHIFTS)]
    else:
        blocks.append("no downsampling module: nothing to say of stages\n")
    blocks.append(_pairs(_whole(results)))
    return "\n".join(block for block in blocks if block)


def _whole(results: Mapping[str, Any]) -> list[tuple[str, str]]:
    invariance = results.get("invariance", {})
    lines = [
        (f"consistency ({name})", f"{percent(value)} %")
        for name, value in invariance.get("consistency", {}).items()
    ]
    lines += [(f"not measured: {name}", reason) for name, reason in invariance.get("skipped", {}).items()]
    for title, key, write in LINES:
        value = _at(results, key)
        if value is not None:
            lines.append((title, write(value)))
    counts = ", ".join(f"{name} {n}" for name in results if (n := _samples(results[name])))
    return [*lines, ("images", counts)] if counts else lines


def _samples(section: Any) -> str:
    if not isinstance(section, Mapping):
        return ""
    if "samples" not in section:
        section = next((one for one in section.values() if isinstance(one, Mapping)), {})
    values = [section[key] for key in ("samples", "shift_samples", "stage_samples") if key in section]
    return "/".join(map(str, values))


def _stages(results: Mapping[str, Any], wanted: Sequence[Column]) -> str:
    stages = list(results["stages"])
    columns = [
        tables.Column("stage", stages, words=True),
        tables.Column("operator", [results["stages"][stage]["name"] for stage in stages], words=True),
    ]
    for header, section, key, write in wanted:
        found = results.get(section, {})
        values = [_at(found if section == "gradient" else found.get("stages", {}), key, s) for s in stages]
        if any(value is not None for value in values):
            cells = [NONE if value is None else write(value) for value in values]
            columns.append(tables.Column(header, cells))
    return tables.text(columns) if len(columns) > 2 else ""


def _pairs(pairs: Sequence[tuple[str, str]]) -> str:
    return tables.text(tables.from_rows(("", ""), pairs))


def _at(node: Any, key: str, first: str | None = None) -> Any:
    for part in [*([first] if first else []), *key.split(".")]:
        if not isinstance(node, Mapping) or part not in node:
            return None
        node = node[part]
    return node
