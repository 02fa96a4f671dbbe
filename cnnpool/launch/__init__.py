"""From a command line of ``cnnpool train`` to jobs that run."""

from pathlib import Path

import yaml


def conf_dir() -> Path:
    """The folder of the configuration: inside the package in a wheel, beside it in a checkout."""
    package = Path(__file__).resolve().parents[1]
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def names_of(key: str, more: Path | None = None) -> list[str]:
    """The files from which a choice is made, those in the user's folder ``more`` too."""
    folders = [conf_dir(), *([more] if more else [])]
    found = {path.stem for folder in folders for path in (folder / key.partition("@")[0]).glob("*.yaml")}
    return sorted(found - {"inherit"})


def defaults() -> dict[str, str]:
    """The choice that ``conf/train.yaml`` makes for every key, ``pool@stage.s1`` and so on among them."""
    lines = yaml.safe_load((conf_dir() / "train.yaml").read_text(encoding="utf-8"))["defaults"]
    return {key: str(value) for line in lines if isinstance(line, dict) for key, value in line.items()}
