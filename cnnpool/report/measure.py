"""One measured number: where it stands in results.json, its name, unit and sense."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cnnpool.report.runs import is_number

SECTIONS = (
    *(
        "test",
        "val",
        "gradient",
        "noise",
        "invariance",
        "all_shifts",
        "diagonal",
        "adversarial",
        "sensitivity",
    ),
    *("equivariance", "heat_map", "receptive_field", "lie", "aliasing", "cost"),
)

# Last known word of the key -> (kind, sense): +1 higher is better, -1 lower is better, 0 neither.
WORDS = {
    "accuracy": ("fraction", 1),
    "worst_shift_accuracy": ("fraction", 1),
    "mean_shift_accuracy": ("fraction", 1),
    "whole_px_accuracy": ("fraction", 1),
    "mean_accuracy": ("fraction", 1),
    "accuracy_by_shift": ("fraction", 1),
    "consistency": ("fraction", 1),
    "consistency_distinct": ("fraction", 1),
    "consistency_given_correct": ("fraction", 1),
    "given_correct": ("fraction", 1),
    "top1_change": ("fraction", -1),
    "zero_fraction": ("fraction", 0),
    "small_fraction": ("fraction", 0),
    "zero_windows": ("fraction", 0),
    "unchanged_outputs": ("fraction", 1),
    "alias_energy_ratio": ("fraction", -1),
    "high_frequency_share": ("fraction", 0),
    "aliased": ("fraction", 0),
    "tangled": ("fraction", 0),
    "nonaliased": ("fraction", 0),
    "nopass": ("fraction", 0),
    "coverage": ("fraction", 0),
    "tied_windows": ("fraction", 0),
    "relative_change": ("ratio", -1),
    "equivariance_error": ("ratio", -1),
    "lie_derivative": ("ratio", -1),
    "relative_lie_derivative": ("ratio", -1),
    "confidence_change": ("ratio", -1),
    "feature_distance": ("ratio", -1),
    "participation_ratio": ("ratio", 0),
    "hoyer": ("ratio", 0),
    "loss": ("ratio", -1),
    "effective_px": ("ratio", 0),
    "noise_scale": ("number", 0),
    "parameters": ("count", -1),
    "classifier_parameters": ("count", -1),
    "flops": ("count", -1),
    "saved_bytes": ("count", -1),
    "train_images_per_s": ("count", 1),
    "wall_s": ("number", -1),
}
UNITS = {"saved_bytes": "B", "wall_s": "s", "effective_px": "px", "noise_scale": "images"}
TITLES = {
    "gradient.*.zero_fraction": "zero gradient, mean of stages",
    "invariance.stages.*.relative_change.1": "relative change at 1 px",
    "aliasing.stages.*.alias_energy_ratio": "alias energy, mean of stages",
    "all_shifts.consistency": "consistency over all shifts",
    "diagonal.top1_change": "top-1 change for 1 px along a diagonal",
    "adversarial.accuracy": "adversarial shift accuracy",
    "cost.flops": "FLOPs",
    "cost.train_images_per_s": "images/s",
    "cost.saved_bytes": "kept for backward",
    "cost.wall_s": "wall time",
    "invariance.worst_shift_accuracy": "worst-shift accuracy",
}


@dataclass(frozen=True)
class Measure:
    """A number of results.json at the dotted ``key``; ``*`` in it stands for the mean over all stages."""

    key: str
    title: str
    kind: str
    """fraction (0..1, shown in %), count (shown with k, M, G), ratio (four decimals) or number."""
    sense: int
    """+1: higher is better; -1: lower is better; 0: neither, so that nothing is called better."""
    unit: str

    @property
    def header(self) -> str:
        return f"{self.title} ({self.unit})" if self.unit else self.title

    @property
    def step_unit(self) -> str:
        """The unit of a difference: percentage points for a fraction."""
        return "points" if self.kind == "fraction" else self.unit

    def shown(self, value: float) -> float:
        """``value`` in the unit it is shown in."""
        return 100 * value if self.kind == "fraction" else value

    def within(self, value: float) -> float:
        """``value``, or the end of the possible values that it lies beyond: 0..1 for a fraction."""
        return min(max(value, 0.0), 1.0) if self.kind == "fraction" else value

    def format(self, value: float, *, sign: bool = False) -> str:
        """``value`` without its unit; NaN as such."""
        if math.isnan(value):
            return "NaN"
        plus = "+" if sign else ""
        if self.kind == "fraction":
            return f"{100 * value:{plus}.2f}"
        if self.kind == "count":
            return _short(value, plus)
        return f"{value:{plus}.4f}" if self.kind == "ratio" else f"{value:{plus}.4g}"

    def read(self, results: Mapping[str, Any]) -> float | None:
        """The number of one run: None if it was not measured, NaN if it is null or not a number."""
        found = list(_lookup(results, self.key.split(".")))
        if not found:
            return None
        return math.fsum(found) / len(found) if all(map(math.isfinite, found)) else math.nan


def measure(key: str) -> Measure:
    """The measure at ``key``; kind, sense and unit follow from the last known word in it."""
    words = key.split(".")
    known = next((word for word in reversed(words) if word in WORDS), words[-1])
    kind, sense = WORDS.get(known, ("number", 0))
    unit = "%" if kind == "fraction" else UNITS.get(known, "")
    return Measure(key, TITLES.get(key) or _title(words), kind, sense, unit)


def known_keys(results: Mapping[str, Any]) -> set[str]:
    """Every key of one run that a measure can read."""
    return {
        key for section in SECTIONS for key in _leaves(results.get(section, {}), section) if key is not None
    }


def _title(words: list[str]) -> str:
    if words[-2:-1] == ["consistency"]:
        return f"consistency ({words[-1]})"
    if words[0] in ("cost", "invariance"):
        words = words[1:]
    return " ".join(word.replace("_", " ") for word in words)


def _lookup(node: Any, path: list[str]) -> Iterator[float]:
    if not path:
        if node is None or is_number(node):
            yield math.nan if node is None else float(node)
    elif isinstance(node, Mapping):
        for key in node if path[0] == "*" else [path[0]]:
            if key in node:
                yield from _lookup(node[key], path[1:])


def _leaves(node: Any, prefix: str) -> Iterator[str]:
    if isinstance(node, Mapping):
        for key, below in node.items():
            yield from _leaves(below, f"{prefix}.{key}")
    elif node is None or is_number(node):
        yield prefix


def _short(value: float, plus: str) -> str:
    if not math.isfinite(value):
        return f"{value:{plus}}"
    for power, letter in ((12, " T"), (9, " G"), (6, " M"), (3, " k")):
        if abs(value) >= 0.9995 * 10**power:
            scaled = value / 10**power
            digits = max(0, 2 - math.floor(math.log10(max(abs(scaled), 1))))
            return f"{scaled:{plus}.{digits}f}{letter}"
    return f"{value:{plus}.0f}" if float(value).is_integer() else f"{value:{plus}.3g}"
