"""From a command line of ``cnnpool train`` to running jobs."""

from functools import cache
from pathlib import Path

import yaml

from cnnpool.schema import GROUPS, choices


@cache
def conf_dir() -> Path:
    """The folder of the configuration: inside the package in a wheel, beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def names_of(key: str, more: Path | None = None) -> list[str]:
    """The names among which a choice selects, including files in the user's folder ``more``."""
    folders, group = [conf_dir(), *([more] if more else [])], key.partition("@")[0]
    found = {path.stem for folder in folders for path in (folder / group).glob("*.yaml")}
    return sorted({*found, *(choices(group) if group in GROUPS else ())} - {"inherit"})


def defaults() -> dict[str, str]:
    """The default of every key in ``conf/train.yaml``, including ``pool@stage.s1`` and so on."""
    lines = yaml.safe_load((conf_dir() / "train.yaml").read_text(encoding="utf-8"))["defaults"]
    return {key: str(value) for line in lines if isinstance(line, dict) for key, value in line.items()}
