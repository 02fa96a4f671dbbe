"""Check settings against the schema's options before anything is made, read or built."""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from inspect import Parameter
from pkgutil import resolve_name
from typing import Any

from cnnpool import registry, schema
from cnnpool.choices import is_published, network_options, options_of, own_operators, whole
from cnnpool.recipe import LOGGERS, REFUSED, Installed, TensorBoard
from cnnpool.registry import KEEP, Option

OF_TENSORS = ": cnnpool.data.from_tensors makes one of tensors"
BASES = {
    "data": "cnnpool.data.Source",
    "pool": "cnnpool.pool.Pool2d",
    "readout": "cnnpool.readout.Readout",
}
"""What a class that is not ours is derived from; a function may return any module."""


def check(settings: Mapping[str, Any]) -> None:
    """Refuse unknown names and values out of range; imports torch only for installed packages."""
    for key in schema.OWN.keys() & settings.keys() - {"out"}:
        schema.OWN[key].validate(key, settings[key])
    if settings.get("overwrite") and settings.get("launch", {}).get("name") in ("slurm", "ray"):
        # There a job may start several times.
        raise ValueError("overwrite=true is for launch=local and launch=processes: delete the folders first")
    if isinstance(out := settings.get("out"), list | dict):
        raise ValueError(f"out={out}: not the name of a folder, which is one word")
    for flag in REFUSED.keys() & settings.get("trainer", {}).keys():
        raise ValueError(f"trainer.{flag}: {REFUSED[flag]}")
    for group in ("fit", "trainer"):
        registry.check_options(schema.options_of(group, ""), group, settings.get(group, {}), group)
    _refuse_contradictions(settings["fit"], settings.get("trainer", {}))
    for group, path, chosen in choices_in(settings):
        if group in ("fit", "trainer", "log"):
            continue
        name = chosen.get("name")
        if not isinstance(name, str):
            raise ValueError(f"{path}.name={name} is not a name; a choice is made by {path}=NAME")
        registry.check_options(_known(group, name, chosen), name, options_of(chosen), path)
        if name == KEEP and not is_published(settings):
            raise ValueError(
                f"{path}=keep: keeps what a published network has, such as model=torchvision:resnet18; "
                f"model={settings['model']['name']} has none of its own"
            )
    for logger in loggers_of(settings):
        logger.refuse_missing()


def _refuse_contradictions(fit: Mapping[str, Any], trainer: Mapping[str, Any]) -> None:
    last, least = fit.get("max_steps"), trainer.get("min_epochs")
    if last and least:
        raise ValueError(f"trainer.min_epochs={least} and fit.max_steps={last} contradict: give one of them")
    every, epochs = trainer.get("check_val_every_n_epoch", 1), fit.get("epochs", 1)
    if fit.get("test") == "best" and every > epochs:
        raise ValueError(
            "fit.test=best needs an epoch with validation: lower "
            f"trainer.check_val_every_n_epoch={every} to fit.epochs={epochs} or less"
        )
    if (time := trainer.get("max_time")) and not time.strip("0: "):
        raise ValueError(f"trainer.max_time={time} is no time to train in: raise it")
    way = trainer.get("gradient_clip_algorithm")
    if way and not trainer.get("gradient_clip_val"):
        raise ValueError(
            f"trainer.gradient_clip_algorithm={way} clips nothing alone: give trainer.gradient_clip_val too"
        )


def refuse_left_out(overrides: Iterable[str], settings: Mapping[str, Any]) -> None:
    """Refuse ``~KEY`` of an option with a default, which the run would have under a name that says off."""
    left = {line.partition("=")[0] for line in overrides if line.startswith("~")}
    for group, path, chosen in choices_in(settings) if left else ():
        if group == "log" or path.startswith("stage."):
            # Of a logger nothing is in the name, and a stage has the options of ``pool``.
            continue
        for key, option in _known(group, str(chosen.get("name")), chosen).items():
            if f"~{path}.{key}" in left and option.default is not Parameter.empty:
                value = json.dumps(option.default, separators=(",", ":")).strip('"')
                raise ValueError(f"~{path}.{key}: the run would have its default: type {path}.{key}={value}")


def choices_in(settings: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """(group, place on the command line, name and options) of every choice."""
    for group, about in schema.GROUPS.items():
        if about.several:
            for name, options in settings.get(group, {}).items():
                if not isinstance(options, Mapping):
                    raise ValueError(
                        f"{group}.{name} holds options of a {group}: leave it out by ~{group}.{name}"
                    )
                yield group, f"{group}.{name}", {"name": name, **options}
        elif group in settings:
            yield group, group, settings[group]
    for stage, spec in own_operators(settings).items():
        if spec != {"name": "inherit"}:
            yield "pool", f"stage.{stage}", whole(spec, settings["pool"])


def _known(group: str, name: str, chosen: Mapping[str, Any]) -> Mapping[str, Option]:
    """The options of a choice, from the schema or from the signature of an installed package's entry."""
    if name == KEEP and group in ("pool", "readout"):
        return {}
    try:
        known = schema.options_of(group, name)
        own = network_options(str(chosen.get("arch"))) if (group, name) == ("model", "installed") else {}
        return {**own, **known}
    except KeyError:
        names = dict.fromkeys(schema.names(group), dict)
        entry = registry.lookup(names, schema.GROUPS[group].entries, name)
        _refuse_unfit(group, name, entry)
        return registry.options_of(entry)


def _refuse_unfit(group: str, name: str, entry: Any) -> None:
    """Refuse code of others of a wrong class, or with options that cannot be set."""
    base = BASES.get(group)
    if base and isinstance(entry, type) and not issubclass(entry, resolve_name(base)):
        more = OF_TENSORS * (group == "data")
        raise ValueError(f"{group}={name}: its class must be derived from {base}{more}") from None
    if group in ("pool", "readout"):
        known, first = registry.options_of(entry), 1 + (group == "readout")
        for key, option in registry.options_after(entry, first).items():
            if key == "name" or (key not in known and option.default is Parameter.empty):
                rule = "options are keyword-only arguments, none called name"
                raise ValueError(f"{group}={name}: its argument {key} cannot be set: {rule}") from None


def loggers_of(settings: Mapping[str, Any]) -> list[TensorBoard]:
    """The loggers beside TensorBoard; none in settings saved by an earlier version."""
    chosen = settings.get("log") or {"name": "tensorboard"}
    names = [chosen["name"]] if isinstance(chosen["name"], str) else chosen["name"]
    entries = [registry.lookup(LOGGERS, schema.GROUPS["log"].entries, name) for name in names]
    known = dict(item for entry in entries for item in registry.options_of(entry).items())
    for key in options_of(chosen):
        registry.refuse_unknown(key, known, ",".join(names), f"log.{key}: ")
    made: list[TensorBoard] = []
    for name, entry in zip(names, entries, strict=True):
        own = registry.options_of(entry)
        given = {key: value for key, value in options_of(chosen).items() if key in own}
        if name in LOGGERS:
            made.append(entry(**given))
        else:
            made.append(Installed(name, partial(entry, **registry.check_options(own, name, given, "log"))))
    return made
