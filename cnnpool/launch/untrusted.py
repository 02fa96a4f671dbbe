"""Checks of a user's configuration folder: its files run no code and read no environment."""

import re
from glob import glob
from pathlib import Path
from typing import Any

import yaml

from cnnpool.launch.config import HYDRA_KEYS, refuse_hydra

REFERENCE = re.compile(r"\$\{(?!\s*(?:[\w.\[\]/-]+\s*\}|(?:hydra|now|run_name|norm_of_model|oc\.select):))")
"""A reference that is neither a key's nor by a function that reads only the configuration."""


def check_folder(folder: Path, ours: Path) -> None:
    """Refuse a folder that cannot be read as configuration.

    Args:
        folder: with choices to add.
        ours: the configuration to which it adds.

    Raises:
        ValueError: naming the file, if it is no YAML, would be passed over, reads the environment, or sets
            what is Hydra's own.
    """
    if not folder.is_dir():
        raise ValueError(f"--config-dir {folder}: not found, or no folder")
    for name in sorted(glob("**/*.yaml", root_dir=folder, recursive=True)):
        path = folder / name
        try:
            text = path.read_text(encoding="utf-8")
            scalars = [event.value for event in yaml.parse(text) if isinstance(event, yaml.ScalarEvent)]
            content = yaml.safe_load(text)
        except UnicodeDecodeError:
            raise ValueError(f"{path} is not UTF-8 text: save it as that") from None
        except yaml.YAMLError as error:
            raise ValueError(f"{path} is not valid YAML: {' '.join(str(error).split())[:200]}") from None
        except RecursionError:
            raise ValueError(f"{path} is nested too deep") from None
        if (ours / name).is_file() and (ours / name).read_text(encoding="utf-8") != text:
            raise ValueError(f"{path}: there is a {Path(name).with_suffix('')} already; give it another name")
        if not (ours / name).is_file() and any(map(REFERENCE.search, scalars)):
            raise ValueError(
                f"{path}: a file refers to other keys alone, not to the environment, whose secrets would be "
                "saved with the run: give that value on the command line"
            )
        _check_hydra(content if isinstance(content, dict) else {}, path)


def _check_hydra(content: dict[Any, Any], path: Path) -> None:
    """Refuse settings of Hydra's own that have no effect here, or extend its search path."""
    for line in content.get("defaults") or ():
        if "hydra" in str(line):
            raise refuse_hydra(f"{path}: {line}")
    own = content.get("hydra", {})
    for key, below in own.items() if isinstance(own, dict) else [("", own)]:
        for name in below if isinstance(below, dict) else [""]:
            setting = ".".join(filter(None, ("hydra", str(key), str(name))))
            if setting not in (*HYDRA_KEYS, "hydra.sweeper.params"):
                raise refuse_hydra(f"{path}: {setting}")
