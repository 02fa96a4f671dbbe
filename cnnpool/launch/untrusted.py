"""Settings that would let a configuration of others run code: own code comes from installed packages only."""

import re
from pathlib import Path

import yaml

NAMING_CODE = re.compile(
    r"hydra[./](searchpath|callbacks|job_logging|hydra_logging|sweeper|env|job[.]env_set)\b|_target_|_partial_|'\(\)'|\"\(\)\""
)
IN_FILES = re.compile(r"@(package )?\s*hydra\b|^\s*hydra\s*:", re.MULTILINE)
FOLDERS = ("--config-dir", "-cd", "--config-path", "-cp")
MOST_VALUES = 10_000
NO_SECRET = "settings are saved with the run; give a secret by the environment"
SECRET = re.compile(r"(^|[._])(api_?key|credentials?|passw(or)?d|secret|token)s?$", re.IGNORECASE)
ADVICE = "own code comes from installed packages, by entry point"


def refuse_hydra_code(arguments: list[str]) -> None:
    """Refuse a command line, or a folder it names, that reaches for Hydra's own ways to import code.

    Raises:
        ValueError: naming the argument or the file.
    """
    for argument in arguments:
        if found := NAMING_CODE.search(argument):
            raise ValueError(f"{argument}: a configuration cannot name code ({found.group()}); {ADVICE}")
    for folder in values(arguments, FOLDERS):
        for path in sorted(Path(folder).rglob("*.y*ml")):
            _refuse_file(path, path.relative_to(folder))


def _refuse_file(path: Path, name: Path) -> None:
    try:
        text = path.read_text(encoding="utf-8")
        size = _expanded(yaml.compose(text, yaml.SafeLoader), {})
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text: save it as that") from None
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is no valid YAML: {' '.join(str(error).split())[:200]}") from None
    if size > MOST_VALUES:
        raise ValueError(f"{path} stands for {size} values by its aliases; at most {MOST_VALUES} are read")
    if name.parts[0] == "hydra" or IN_FILES.search(text) or NAMING_CODE.search(text):
        raise ValueError(f"{path} changes Hydra's own settings: a configuration cannot name code; {ADVICE}")


def _expanded(node: yaml.Node | None, known: dict[int, int]) -> int:
    """How many values a YAML node stands for, once its aliases are followed."""
    if not isinstance(node, yaml.CollectionNode):
        return 1
    if id(node) not in known:
        # What contains itself stands for no end of values.
        known[id(node)] = MOST_VALUES
        parts = (
            node.value
            if isinstance(node, yaml.SequenceNode)
            else [part for pair in node.value for part in pair]
        )
        known[id(node)] = 1 + sum(_expanded(part, known) for part in parts)
    return known[id(node)]


def is_secret(key: str) -> bool:
    """Whether a setting called ``key`` would hold what nobody else may read."""
    return bool(SECRET.search(key))


def values(arguments: list[str], options: tuple[str, ...]) -> list[str]:
    """What follows any of ``options``, as the next argument or after an equals sign."""
    values = []
    for at, argument in enumerate(arguments):
        option, _, value = argument.partition("=")
        if option in options:
            values += [value] if value else arguments[at + 1 : at + 2]
    return values
