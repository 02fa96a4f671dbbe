"""One-line error messages for command lines, from Hydra's exceptions."""

from collections.abc import Iterable, Sequence

from hydra.core.override_parser.types import Override
from hydra.errors import MissingConfigException
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from cnnpool.launch import defaults, names_of
from cnnpool.launch.config import TOO_DEEP, unresolved
from cnnpool.launch.overrides import PACKAGES, PLUGINS, is_of_late_stage
from cnnpool.recipe import REFUSED
from cnnpool.registry import MOST, did_you_mean, nearest, of_ones_own
from cnnpool.schema import GROUPS, SECTIONS, names, options_of

SYNONYMS = {
    "kernel": "kernel_size",
    "size": "kernel_size",
    "learning_rate": "lr",
    "learn_rate": "lr",
    "max_epochs": "epochs",
    "num_epochs": "epochs",
    "wd": "weight_decay",
}  # Names of options in other projects -> ours
MEANT = {
    "trainer": "; a GPU is used where there is one, fit.devices=N takes several, trainer.KEY sets a flag",
    "logger": "; log=NAME logs elsewhere too: csv, mlflow or wandb",
    "choose": "; it is a key of cnnpool choose",
    "optuna": "; hydra/sweeper=optuna looks for the best values, by -m",
    "tags": "; they are a logger's: log=wandb log.tags=[first,second]",
}  # Words of other projects -> the equivalent here


def explain(error: Exception, overrides: Iterable[Override] = ()) -> str:
    """One line with a suggestion, without Hydra's advice on ``+`` and stack traces."""
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
    known = [key for key in defaults() if "@" in key]
    for override in overrides:
        place = f"{override.key_or_group}@{override.package}"
        if override.package and not is_of_late_stage(override) and override.get_key_element() not in known:
            if place in known:
                return f"{override.input_line}: leave out the sign before {place}"
            return _no_stage(place, known, overrides)
    lines = [*str(error).splitlines(), *(str(cause).splitlines()[:1] if cause else [])]
    kept = [line.strip() for line in lines if line.strip() and not line.startswith(("To append", "See http"))]
    return "; ".join(kept[:3]) or f"the command line is not valid ({type(error).__name__})"


def _no_stage(place: str, known: Sequence[str], overrides: Iterable[Override]) -> str:
    """The message that a stage does not exist, with the stages of the chosen network."""
    given = {one.get_key_element(): str(one.value()) for one in overrides}
    name = given.get("model", "convnet")
    package, _, arch = name.partition(":")
    if package in PACKAGES:
        network = f"{package}:{arch or given.get('model.arch', 'NAME')}"
        return f"no {place!r}: cnnpool probe {network} lists the stages of that network"
    # Imported late: torch takes seconds to import, and this ends a command.
    from cnnpool.model import MODELS

    stages = [f"pool@stage.{stage}" for stage in getattr(MODELS.get(name), "STAGES", ())] or known
    return f"no {place!r} in {name}; there are {', '.join(stages)}"


def _no_choice(error: MissingConfigException) -> str:
    name = str(error.missing_cfg_file)
    group, _, word = name.rpartition("/")
    known = sorted(error.options or (names_of(group) if group else ()))
    if name.startswith(PLUGINS):
        kind, _, plugin = name.removeprefix("hydra/").partition("/")
        package = f"hydra-{plugin.partition('_')[0]}-{kind}"
        return f"no {name}; choose from {', '.join(known)}, or pip install {package}"
    if not known:
        return f"no {name}.yaml in conf or the folder of --config-dir"
    more = ""
    if group == "model":
        more = f" (networks of packages: model=torchvision:{word}, model=timm:{word})"
        more += of_ones_own("networks", word, known)
    return f"no {name}; {did_you_mean(word, known)}{more or MEANT.get(group, '')}"


def _no_key(key: str) -> str:
    section, _, rest = key.partition(".")
    if section == "stage" and "." in rest:
        stage = rest.partition(".")[0]
        option = SYNONYMS.get(key.rpartition(".")[2], key.rpartition(".")[2])
        return (
            f"{key}: a stage's options follow its operator; choose that too: "
            f"pool@stage.{stage}=NAME stage.{stage}.{option}=VALUE"
        )
    if section == "trainer" and (remedy := REFUSED.get(rest)):
        return f"{key}: {remedy}"
    if key == "tags":
        return f"unknown key {key!r}{MEANT[key]}"
    owners = _keys()
    if (known_as := f"{section}.{SYNONYMS.get(rest)}") in owners:
        return f"unknown key {key!r}; did you mean {known_as!r}?"
    if choices := owners.get(key):
        return f"{key!r} is an option of {section}={','.join(choices)}, not of the {section} that is chosen"
    # Of several keys that end in the same word the last one counts.
    known = [*owners, *SECTIONS]
    last = key.rpartition(".")[2]
    by_last = {name.rpartition(".")[2]: name for name in known}
    for word, candidates in ((key, {name: name for name in known}), (last, by_last)):
        if close := nearest(word, candidates, cutoff=0.75):
            return f"unknown key {key!r}; did you mean {candidates[close[0]]!r}?"
    if meant := MEANT.get(section):
        return f"unknown key {key!r}{meant}"
    inside = [name for name in known if name.startswith(f"{section}.")]
    if inside:
        # The common prefix of a section's keys is no similarity.
        near = nearest(rest, (name.partition(".")[2] for name in inside))
        return f"unknown key {key!r}; {did_you_mean(f'{section}.{near[0]}' if near else '', inside)}"
    return f"unknown key {key!r}; choose from {', '.join(SECTIONS[:MOST])}, ... (see cnnpool train --help)"


def _keys() -> dict[str, list[str]]:
    """Every option, as on the command line, and the choices that have it; the recipe's options come last."""
    keys: dict[str, list[str]] = {}
    for group in sorted(GROUPS, key="fit".__eq__):
        for name in sorted(names(group)):
            place = f"{group}.{name}" if GROUPS[group].several else group
            for option in options_of(group, name):
                keys.setdefault(f"{place}.{option}", []).append("full" if group == "probe" else name)
    return keys
