"""The arguments of an example: its operator, by any common name, its options, and typed images."""

import json
import math
import re
import textwrap
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from cnnpool import pool, readout, registry, tables

Group = Literal["pool", "readout"]
GROUPS: dict[Group, tuple[Mapping[str, Any], str]] = {
    "pool": (pool.OPERATORS, "operators"),
    "readout": (readout.READOUTS, "readouts"),
}
LARGEST = 64
"""Largest value of integer options: larger examples are unreadable, and might fill the memory."""
MOST_CELLS = 16
"""Largest side of an image in cells: more do not fit a screen."""
MOST_IMAGES = 8
SPELLINGS = {
    "pooling": "pool", "average": "avg", "maximum": "max", "global": "g", "convolution": "conv", "2d": ""
}  # fmt: skip
OTHERS_NAMES = {"conv": "strided", "fc": "flatten", "fullyconnected": "flatten"}
"""Name in other programs -> the name here."""
KINDS = {
    "sparse": "each output passes its gradient to a few inputs of its window, the others get none",
    "dense": "every input under a window gets a share of the gradient",
    "uneven": "every input gets gradient, but some from more outputs than others",
}
"""The kinds of gradient that operators declare, in words."""
UNKNOWN = "not stated"
FIRST = ("max", "avg", "blur", "max_blur", "strided")


def build(
    group: Group, name: str, size: tuple[int, int], options: Mapping[str, object] | None = None
) -> nn.Module:
    for key, value in (options or {}).items():
        parts = value if isinstance(value, tuple) else (value,)
        if any(isinstance(part, int) and part > LARGEST for part in parts):
            raise ValueError(f"{name}: {key}={shown(value)} is too large to explain: at most {LARGEST:,}")
    # Before the calls below, whose own parameters have names as well.
    registry.check(entry_of(group, name), name, options or {})
    if group == "readout":
        return readout.build(name, 1, size, **(options or {}))
    return pool.build(name, 1, **(options or {}))


def found(word: str, group: Group | None = None) -> tuple[Group, str]:
    """Group and name that ``word`` means: ``maxpool``, ``nn.MaxPool2d`` and ``max pooling`` are ``max``."""
    word = word if group == "readout" else OTHERS_NAMES.get(_plain(word), word)
    names = {one: registry.names(*GROUPS[one]) for one in GROUPS if group in (None, one)}
    for one, known in names.items():
        if word in known:
            return one, word
    for one, known in names.items():
        for name in known:
            own = GROUPS[one][0].get(name)
            if _plain(word) in map(_plain, [name, f"{name}_pool", *([own.__name__] if own else [])]):
                return one, name
    kind = "readout" if group == "readout" else "operator"
    every = [name for known in names.values() for name in known]
    raise ValueError(f"no {kind} named {word!r}; {registry.did_you_mean(word, every)}")


def entry_of(group: Group, name: str) -> Any:
    return registry.lookup(*GROUPS[group], name)


def gradient_of(name: str) -> str:
    kind = getattr(entry_of("pool", name), "gradient", "")
    return f"{kind}: {KINDS[kind]}" if kind in KINDS else UNKNOWN


def listing() -> str:
    """All names by kind of gradient, preceded by a few for beginners."""
    groups = {"start with": list(FIRST)}
    for name in registry.names(*GROUPS["pool"]):
        groups.setdefault(gradient_of(name), []).append(name)
    groups["readouts: the last pooling before the classifier"] = registry.names(*GROUPS["readout"])
    return "\n".join(
        f"{title}\n{textwrap.fill('  '.join(names), 100, initial_indent='  ', subsequent_indent='  ')}\n"
        for title, names in groups.items()
    )


def _plain(word: str) -> str:
    text = re.sub(r"[^a-z0-9]", "", word.lower().rpartition(".")[2])
    for long, short in SPELLINGS.items():
        text = text.replace(long, short)
    return text


def options_text(group: Group, name: str) -> str:
    options = registry.options_of(entry_of(group, name))
    if not options:
        return f"{name} takes no options\n"
    rows = [(key, shown(option.default), option.words) for key, option in options.items()]
    table = tables.text(tables.from_rows(("option", "default", "legal values"), rows))
    return f"options of {name}, each set by KEY=VALUE:\n{table}"


def shown(value: object) -> str:
    """A value as typed: ``null``, ``true``, ``2``, ``[2, 1]``."""
    return json.dumps(value) if isinstance(value, bool | tuple | None) else str(value)


def batch(texts: list[str]) -> Tensor:
    """Images (N, 1, H, W), float64, from texts such as ``1 2; 3 4``: rows end in semicolons."""
    if len(texts) > MOST_IMAGES:
        raise ValueError(f"--values: at most {MOST_IMAGES} images, got {len(texts)}")
    images = [_image(text) for text in texts]
    sizes = dict.fromkeys(f"{image.shape[0]}x{image.shape[1]}" for image in images)
    if len(sizes) > 1:
        raise ValueError(f"--values: the images of a batch have one size, got {' and '.join(sizes)}")
    return torch.stack(images).unsqueeze(1)


def _image(text: str) -> Tensor:
    rows = [[_number(word, text) for word in row.replace(",", " ").split()] for row in text.split(";")]
    if not rows[-1] and len(rows) > 1:
        rows.pop()
    widths = {len(row) for row in rows}
    if len(widths) > 1 or not rows[0]:
        raise ValueError(f"--values {text!r}: rows of equal length are needed, such as '1 2; 3 4'")
    if max(len(rows), *widths) > MOST_CELLS:
        raise ValueError(f"--values: at most {MOST_CELLS} rows and columns, got {len(rows)}x{len(rows[0])}")
    return torch.tensor(rows, dtype=torch.float64)


def _number(word: str, text: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"--values {text!r}: {word!r} is not a finite number")
    return value
