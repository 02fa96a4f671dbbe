"""Image sizes that published weights expect, where the user sets none."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from cnnpool import registry
from cnnpool.choices import is_published, located
from cnnpool.published.build import PUBLISHED
from cnnpool.published.preset import Preset, Size


def preset_of(settings: Mapping[str, Any]) -> Preset | None:
    """How images were prepared for the weights that a run starts from; None if that is not known.

    Raises:
        ValueError: for an architecture or weights that do not exist.
    """
    if not is_published(settings):
        return None
    with located("model", settings["model"]):
        return _published(json.dumps(settings["model"]))


def sized(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the data, with size and resize as the weights expect if neither is set.

    Data sets of one size, which have no such options, stay as they are.
    """
    data = dict(settings["data"])
    # An option that a data set does not have is not null.
    if any(data.get(key, 0) is not None for key in ("size", "resize")):
        return data
    preset = preset_of(settings)
    return data | {"size": preset.size, "resize": preset.resize} if preset else data


def sentence(preset: Preset, settings: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    """A line on what was taken from the weights; empty if nothing was.

    Args:
        preset: of the weights.
        settings: as the user gave them.
        data: as ``sized`` returns them.
    """
    parts = []
    if data != settings["data"]:
        parts.append(
            f"resized to {_words(preset.resize)}, the central {_words(preset.size)} (data.resize, data.size)"
        )
    if settings["model"].get("normalise") == "weights":
        mean, std = (" ".join(f"{value:g}" for value in values) for values in (preset.mean, preset.std))
        parts.append(f"mean {mean}, deviation {std} (model.normalise)")
    return f"images as for the weights of {preset.source}: {', '.join(parts)}" if parts else ""


@cache
def _published(model: str) -> Preset | None:
    """The preset of the network with the settings ``model``, as JSON: asked once for all jobs of a sweep."""
    chosen = json.loads(model)
    found: Preset | None = registry.construct(PUBLISHED, "networks", chosen.pop("name"), **chosen).preset()
    return found


def _words(size: Size) -> str:
    height, width = (size, size) if isinstance(size, int) else size
    return f"{height}x{width}"
