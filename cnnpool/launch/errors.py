"""Error messages of one line for command lines, from the exceptions that Hydra raises."""

from collections.abc import Iterable

import yaml
from hydra.core.override_parser.types import Override
from hydra.errors import MissingConfigException
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from cnnpool.launch import conf_dir
from cnnpool.launch.config import SECTIONS, TOO_DEEP, unresolved
from cnnpool.launch.overrides import is_of_late_stage
from cnnpool.registry import did_you_mean, nearest


def explain(error: Exception, overrides: Iterable[Override] = ()) -> str:
    """One line with a suggestion, without Hydra's advice on ``+`` and stack traces.

    Args:
        error: raised while ``overrides`` were composed.
        overrides: the job's.
    """
    cause = error.__cause__
    if isinstance(error, MissingConfigException):
        return _no_choice(error)
    if isinstance(cause, ConfigAttributeError | ConfigKeyError):
        key = str(cause.full_key)
        return _no_key(
            next((o.key_or_group for o in overrides if f"{o.key_or_group}.".startswith(f"{key}.")), key)
        )
    if any("maximum recursion depth" in str(one) for one in (error, cause)):
        return f"the configuration: {TOO_DEEP}"
    if isinstance(cause, OmegaConfBaseException) and not str(error):
        return unresolved(cause)
    for override in overrides:
        place = f"{override.key_or_group}@{override.package}"
        if is_of_late_stage(override):
            continue
        if override.package and override.get_key_element() not in (known := stages()):
            if place in known:
                return f"{override.input_line}: leave out the sign before {place}"
            return f"no {place!r} to override; there are {', '.join(known)}"
    lines = [*str(error).splitlines(), *(str(cause).splitlines()[:1] if cause else [])]
    kept = [line.strip() for line in lines if line.strip() and not line.startswith(("To append", "See http"))]
    return "; ".join(kept[:3]) or f"the command line is not valid ({type(error).__name__})"


def _no_choice(error: MissingConfigException) -> str:
    name, known = str(error.missing_cfg_file), sorted(error.options or [])
    if not known:
        return f"no {name}.yaml in conf or the folder of --config-dir"
    return f"no {name}; {did_you_mean(name.rpartition('/')[2], known)}"


def _no_key(key: str) -> str:
    section, _, rest = key.partition(".")
    if section == "stage" and "." in rest:
        stage = rest.partition(".")[0]
        return f"{key}: a stage's options follow its operator; choose that too: pool@stage.{stage}=NAME"
    owners = _keys()
    if choices := owners.get(key):
        return f"{key!r} is an option of {section}={','.join(choices)}, not of the {section} that is chosen"
    known = [*SECTIONS, *owners]
    last = key.rpartition(".")[2]
    by_last = {name.rpartition(".")[2]: name for name in known}
    for word, candidates in ((key, {name: name for name in known}), (last, by_last)):
        if close := nearest(word, candidates, cutoff=0.75):
            return f"unknown key {key!r}; did you mean {candidates[close[0]]!r}?"
    inside = [name for name in known if name.startswith(f"{section}.")]
    return f"unknown key {key!r}; choose from {', '.join(inside or SECTIONS)}"


def stages() -> list[str]:
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
