"""One line for what Hydra says of a mistaken command line."""

import re

import yaml

from cnnpool.launch.config import SECTIONS, conf_dir
from cnnpool.registry import did_you_mean, nearest


def explain(said: str) -> str:
    """Hydra's message with a suggestion, and without its advice on stack traces and on ``+``."""
    if found := re.search(r"Could not find '([\w/]+)/([^']*)'", said):
        return _no_choice(*found.groups())
    if found := re.search(r"Could not override '([^']+)'", said):
        return _no_key(found.group(1).lstrip("+~"))
    if found := re.search(r"^\w+Error: \[Errno \d+\] (.*): '(.*)'$", said, re.MULTILINE):
        return f"{found.group(2)}: {found.group(1)}; choose another folder by out= or hydra.run.dir="
    if found := re.search(r"^cnnpool train: error: (.*)$", said, re.MULTILINE):
        return f"{found.group(1)}; 'cnnpool train --hydra-help' lists the options"
    if "Traceback (most recent call last)" in said:
        # After the indented stack comes the error, on one line or more.
        lines = said.strip().splitlines()
        last = max(at for at, line in enumerate(lines) if line.startswith("    ")) if len(lines) > 1 else -1
        return " ".join(" ".join(lines[last + 1 :]).split())[:300]
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    kept = [line for line in lines if "HYDRA_FULL_ERROR" not in line and not line.startswith("See https:")]
    return "; ".join(kept[:3]) or "the command line is not valid"


def _no_choice(group: str, name: str) -> str:
    known = sorted(path.stem for path in (conf_dir() / group).glob("*.yaml"))
    if not known:
        return f"no {group}/{name}"
    return f"no {group}/{name}; {did_you_mean(name, known)}"


def _no_key(key: str) -> str:
    if "@" in key:
        return f"no {key!r} to override; there are {', '.join(_stages())}"
    if found := re.match(r"stage\.(\w+)\.", key):
        stage = found.group(1)
        return f"{key}: a stage's options follow its operator; choose that too: pool@stage.{stage}=NAME"
    owners = _keys()
    if choices := owners.get(key):
        section = key.partition(".")[0]
        return f"{key!r} is an option of {section}={','.join(choices)}, not of the {section} that is chosen"
    known = [*SECTIONS, *owners]
    last = key.rpartition(".")[2]
    by_last = {name.rpartition(".")[2]: name for name in known}
    for word, candidates in ((key, {name: name for name in known}), (last, by_last)):
        if close := nearest(word, candidates, cutoff=0.75):
            return f"unknown key {key!r}; did you mean {candidates[close[0]]!r}?"
    inside = [name for name in known if name.startswith(f"{key.partition('.')[0]}.")]
    return f"unknown key {key!r}; choose from {', '.join(inside or SECTIONS)}"


def _stages() -> list[str]:
    """``pool@stage.s1`` and so on, as the command line may name them."""
    defaults = yaml.safe_load((conf_dir() / "train.yaml").read_text())["defaults"]
    return [key for one in defaults if isinstance(one, dict) for key in one if key.startswith("pool@stage.")]


def _keys() -> dict[str, list[str]]:
    """Every key of our own files, as on the command line, and the choices that have it.

    Of several keys with one last word the recipe's comes last.
    """
    keys: dict[str, list[str]] = {}
    for section in ("data", "model", "pool", "readout", "probe", "fit"):
        for path in sorted((conf_dir() / section).glob("*.yaml")):
            content = yaml.safe_load(path.read_text()) or {}
            found = [f"{section}.{option}" for option in content if option not in ("defaults", "name")]
            for part, options in content.items():
                if section == "probe" and isinstance(options, dict):
                    found += [f"probe.{part}.{option}" for option in options]
            for key in found:
                keys.setdefault(key, []).append(path.stem)
    return keys
