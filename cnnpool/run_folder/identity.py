"""The settings that decide a run's result, and how two runs differ in them."""

import json
import math
from collections.abc import Mapping
from typing import Any

DECIDING = ("data", "model", "pool", "stage", "readout", "probe", "fit", "seed")
HARMLESS = {
    "data": ("root", "download", "skip_unreadable", "stream"),
    "fit": (
        "progress",
        "pictures",
        "devices",
        "strategy",
        "keep_memory",
        "log_every_steps",
        "checkpoint_every_minutes",
    ),
}
"""Options that change no bit of the weights (``devices`` and ``strategy``: nothing but rounding)."""


def asked(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that decide a run's result, in plain JSON."""
    kept = {key: config.get(key) for key in DECIDING}
    for section, harmless in HARMLESS.items():
        kept[section] = {k: v for k, v in (kept[section] or {}).items() if k not in harmless}
    plain: dict[str, Any] = json.loads(json.dumps(as_json(kept)))
    return plain


def as_json(settings: Any) -> Any:
    """``settings`` as JSON can keep them: infinity is the text ``inf``, which a float option takes back."""
    if isinstance(settings, Mapping):
        return {key: as_json(value) for key, value in settings.items()}
    if isinstance(settings, list | tuple):
        return [as_json(value) for value in settings]
    return str(settings) if isinstance(settings, float) and math.isinf(settings) else settings


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """``key: old -> new`` of every setting that differs, keys as on the command line."""
    before, after = dict(_flat(old)), dict(_flat(new))
    keys = [*before, *(key for key in after if key not in before)]
    return [
        f"{key}: {_text(before, key)} -> {_text(after, key)}"
        for key in keys
        if _text(before, key) != _text(after, key)
    ]


def _flat(node: Any, path: str = "") -> list[tuple[str, Any]]:
    if isinstance(node, Mapping) and node:
        below = f"{path}." if path else ""
        return [pair for key, value in node.items() for pair in _flat(value, f"{below}{key}")]
    return [(path, node)]


def _text(settings: Mapping[str, Any], key: str) -> str:
    return json.dumps(settings[key]).strip('"') if key in settings else "none"
