"""From a composed configuration to objects; with cli.py the only place that knows Hydra or OmegaConf."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from cnnpool.launch.untrusted import NO_SECRET, is_secret
from cnnpool.run_folder.atomic import write_text
from cnnpool.run_folder.identity import HARMLESS

UNNAMED = ("seed", "data", "model", "pool", "experiment", "out", "launch")
"""Overrides that a run's folder does not repeat because its path says them, or they are none of its business.

Neither does it repeat those that change no result, ``cnnpool.run_folder.identity.HARMLESS``.
"""
SECTIONS = (
    "data",
    "model",
    "pool",
    "stage",
    "readout",
    "probe",
    "fit",
    "seed",
    "out",
    "experiment",
    "launch",
)


def conf_dir() -> Path:
    """The folder of the configuration: inside the package in a wheel, beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def run_name(*, _root_: DictConfig) -> str:
    """The run's folder below the output root: [experiment/]data/model/choice/seed."""
    chosen = _root_.hydra.runtime.choices
    asked = [text for text in _root_.hydra.overrides.task if _is_named(_key(text))]
    parts = [
        chosen.get("data"),
        chosen.get("model"),
        choice_name(chosen["pool"], asked),
        f"seed{_root_.seed}",
    ]
    if chosen.get("experiment"):
        parts.insert(0, chosen["experiment"])
    return "/".join(parts)


def _is_named(key: str) -> bool:
    section, _, option = key.partition(".")
    return key not in UNNAMED and section != "launch" and option not in HARMLESS.get(section, ())


def _key(override: str) -> str:
    return override.split("=", 1)[0].lstrip("+~")


def choice_name(pool: str, overrides: list[str]) -> str:
    """What is compared, in one word: the pool and every other override, in a fixed order.

    ``max``, ``max+kernel_size=3``, ``blur+s2=avg+s2.kernel_size=3+readout=gap``.
    """
    words = [re.sub(r"^[+~]*(pool@stage\.|stage\.|pool\.)?", "", text) for text in overrides]
    return "+".join([pool, *sorted(re.sub(r"[^\w.=+@-]", "_", word) for word in words)])


def settle(config: DictConfig) -> dict[str, Any]:
    """The configuration as plain data, every reference followed, refused where it has unknown parts.

    Raises:
        ValueError: for a key that nothing reads, or that asks for code by name.
    """
    try:
        plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise ValueError(unresolved(error)) from None
    for key in plain:
        if key not in SECTIONS:
            raise ValueError(f"unknown key {key!r}; known are {', '.join(SECTIONS)}")
    refuse_code(plain)
    return plain


def unresolved(error: OmegaConfBaseException) -> str:
    """One line for a value that is missing, or refers to what does not exist."""
    said = str(error).splitlines()[0]
    if found := re.search(r"^\w+Error raised while resolving interpolation: \"?(.*?)\"?$", said):
        said = found.group(1)
    if found := re.fullmatch(r"Environment variable '(.*)' not found", said):
        # The key may be another's, which refers to the one with the variable.
        name = found.group(1)
        default = f"${{oc.env:{name},DEFAULT}}"
        return f"the environment variable {name} is not set: set it, or give a default by {default}"
    remedy = "give" if "Missing mandatory" in said else "set that, or give"
    return f"{error.full_key}: {said}; {remedy} a value by {error.full_key}=VALUE"


def refuse_code(node: Any, path: str = "") -> None:
    """Refuse keys by which Hydra would import and call what a file names, and secrets.

    Raises:
        ValueError: naming the key.
    """
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key in ("_target_", "_partial_", "_args_", "_recursive_", "_convert_"):
                raise ValueError(f"{path}{key}: a configuration cannot name code; remove it")
            if is_secret(str(key)):
                raise ValueError(f"{path}{key}: {NO_SECRET}")
            refuse_code(value, f"{path}{key}.")
    elif isinstance(node, list):
        for value in node:
            refuse_code(value, path)


def stage_settings(config: Mapping[str, Any], stages: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """The operator of every stage of a model with its options: its own, or the common one.

    Raises:
        ValueError: if an operator is set for a stage that the model does not have.
    """
    own = own_operators(config)
    for stage, spec in own.items():
        if stage not in stages and spec["name"] != "inherit":
            raise ValueError(
                f"stage.{stage}: model {config['model']['name']} has no stage {stage}; "
                f"it has {', '.join(stages)}"
            )
    settled = {}
    for stage in stages:
        spec = own.get(stage, {"name": "inherit"})
        common = dict(config["pool"]) if spec["name"] == "inherit" else {}
        settled[stage] = common | {k: v for k, v in spec.items() if v != "inherit"}
    return settled


def own_operators(config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What is set for single stages, by stage.

    Raises:
        ValueError: if that is no operator with its options.
    """
    own = config.get("stage") or {}
    for stage, spec in own.items():
        if not isinstance(spec, Mapping):
            raise ValueError(
                f"stage.{stage}={spec}: a stage's operator is chosen by pool@stage.{stage}={spec}, "
                f"its options by stage.{stage}.OPTION=VALUE"
            )
    return {stage: dict(spec) for stage, spec in own.items()}


def save(settings: Mapping[str, Any], overrides: list[str], folder: Path) -> None:
    """Leave ``config.yaml``, what was asked and resolved, and ``overrides.yaml`` in ``folder``."""
    folder.mkdir(exist_ok=True)
    for name, content in (("config.yaml", settings), ("overrides.yaml", overrides)):
        write_text(folder / name, OmegaConf.to_yaml(OmegaConf.create(content)))
