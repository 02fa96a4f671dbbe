"""The settings that determine a run's result, and how two runs differ in them."""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, Literal

from cnnpool.json_text import flat

DECIDING = ("data", "model", "pool", "stage", "readout", "probe", "fit", "seed", "trainer", "callback")
# Names of a script's own classes; of its own network a digest of weights, and of those that are frozen
FROM_PYTHON = ("classifier", "callbacks", "initial_weights", "frozen")
EFFECTS: dict[str, Literal["nothing", "bits"]] = {
    "data.root": "nothing",
    "data.download": "nothing",
    "data.skip_unreadable": "nothing",
    "data.stream": "nothing",
    "data.eval_batch_size": "bits",
    "fit.progress": "nothing",
    "fit.pictures": "nothing",
    "fit.log_every_steps": "nothing",
    "fit.checkpoint_every_minutes": "nothing",
    "fit.keep_memory": "nothing",
    "trainer.fast_dev_run": "nothing",
    "trainer.accelerator": "bits",
    "fit.strategy": "bits",
    "fit.channels_last": "bits",
    "fit.deterministic": "bits",
}
"""Settings that do not affect the result, or only its last bits; all other settings affect it.

``fit.devices`` affects it: batch normalisation sees each device's share of a batch.
"""


def effect(key: str) -> Literal["nothing", "bits", "result"]:
    """Effect of the setting ``key``, as on the command line, on a run's result."""
    return EFFECTS.get(key, "result")


def identity_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that determine a run's result bit for bit, in plain JSON."""
    kept = {key: config.get(key) for key in DECIDING}
    kept |= {key: config[key] for key in FROM_PYTHON if key in config}
    for section in ("data", "fit", "trainer"):
        options = kept[section] or {}
        kept[section] = {k: v for k, v in options.items() if effect(f"{section}.{k}") != "nothing"}
    plain: dict[str, Any] = json.loads(json.dumps(as_json(kept)))
    return plain


def same_choice(asked: Mapping[str, Any]) -> str:
    """A short text that the ``asked`` settings of two runs share if they differ at most in their seeds."""
    own = {k: v for k, v in flat(asked) if k.rpartition(".")[2] != "seed" or k.startswith("probe.")}
    return digest(json.dumps(own, sort_keys=True))


def digest(text: str, letters: int = 8) -> str:
    """The first ``letters`` of the SHA-256 of ``text``, which tell a few texts apart."""
    return hashlib.sha256(text.encode()).hexdigest()[:letters]


def is_longer(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether ``new`` is the run ``old`` with more epochs, whose steps so far are the same."""
    before, fit = old.get("fit") or {}, new.get("fit") or {}
    if fit.get("schedule") != "constant" or fit.get("warmup") or before.get("epochs", 0) >= fit["epochs"]:
        return False
    return not differences({**old, "fit": {**before, "epochs": fit["epochs"]}}, new)


def as_json(settings: Any) -> Any:
    """``settings`` representable in JSON: infinity becomes the text ``inf``, which float options accept."""
    if isinstance(settings, Mapping):
        return {key: as_json(value) for key, value in settings.items()}
    if isinstance(settings, list | tuple):
        return [as_json(value) for value in settings]
    return str(settings) if isinstance(settings, float) and math.isinf(settings) else settings


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """``key: old -> new`` for every setting that differs, with keys as on the command line."""
    before, after = ({key: json.dumps(value).strip('"') for key, value in flat(node)} for node in (old, new))
    pairs = {key: (before.get(key, "none"), after.get(key, "none")) for key in before | after}
    return [f"{key}: {one} -> {other}" for key, (one, other) in pairs.items() if one != other]
