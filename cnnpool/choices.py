"""Names and options that a run's settings choose, as plain data; imports no group."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cnnpool import registry
from cnnpool.registry import Option

PUBLISHED = ("installed", "timm", "torchvision")  # Models of other packages


def is_published(settings: Mapping[str, Any]) -> bool:
    return settings["model"]["name"] in PUBLISHED


def network_options(arch: str) -> Mapping[str, Option]:
    """The arguments of an installed package's network beside the number of classes, which comes first."""
    return registry.options_after(registry.lookup({}, "networks", arch), 1)


def options_of(chosen: Mapping[str, Any]) -> dict[str, Any]:
    return {option: value for option, value in chosen.items() if option != "name"}


@contextmanager
def located(path: str, chosen: Mapping[str, Any]) -> Iterator[None]:
    """Prefix errors that begin with an option's name with ``path``, its place on the command line."""
    try:
        yield
    except ValueError as error:
        if str(error).partition(" ")[0] in options_of(chosen):
            raise ValueError(f"{path}.{error}") from None
        raise


def own_operators(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The operators set for single stages, by stage."""
    own = settings.get("stage") or {}
    for stage, spec in own.items():
        if not isinstance(spec, Mapping):
            raise ValueError(
                f"stage.{stage}={spec}: a stage's operator is chosen by pool@stage.{stage}={spec}, "
                f"its options by stage.{stage}.OPTION=VALUE"
            )
    return {stage: dict(spec) for stage, spec in own.items()}


def stage_settings(settings: Mapping[str, Any], stages: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """The operator and options of every stage of a model: the stage's own, or the common one."""
    own = own_operators(settings)
    for stage, spec in own.items():
        if stage not in stages and spec["name"] != "inherit":
            raise ValueError(
                f"stage.{stage}: model {settings['model']['name']} has no stage {stage}; "
                f"it has {', '.join(stages)}"
            )
    return {stage: whole(own.get(stage, {"name": "inherit"}), settings["pool"]) for stage in stages}


def whole(spec: Mapping[str, Any], pool: Mapping[str, Any]) -> dict[str, Any]:
    """A stage's operator and options, of which it may inherit those of ``pool``."""
    common = dict(pool) if spec.get("name") == "inherit" else {}
    return common | {key: value for key, value in spec.items() if value != "inherit"}
