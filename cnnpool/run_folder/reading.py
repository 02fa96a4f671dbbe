"""Read files below a folder of runs, which anyone may have put there; others raise a :class:`DamagedError`.

Only regular files of a limited size are read, JSON may contain only finite numbers, and the aliases of YAML,
with which a small file can fill the memory, may repeat only so much. No tag of YAML is obeyed: it is text.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml

from cnnpool import json_text
from cnnpool.run_folder.errors import DamagedError

T = TypeVar("T")
MOST_NODES = 100_000  # Most values in YAML, counted again wherever an alias repeats them
LONGEST = 1 << 28  # Largest size in bytes; a run with all its maps takes a thousandth


def read_bytes(path: Path) -> bytes | None:
    """The content of ``path``; None if there is no file."""
    try:
        regular(path)
        with path.open("rb") as file:
            return file.read(LONGEST)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedError(f"{path} cannot be read: {error.strerror or error}") from None


def regular(path: Path, longest: float = LONGEST) -> os.stat_result:
    """The ``stat`` of the file ``path``; a DamagedError if it is not a regular file or is too long."""
    found = path.stat()
    # Opening a pipe would wait for its writer.
    if not stat.S_ISREG(found.st_mode):
        raise DamagedError(f"{path} cannot be read: it is not a regular file")
    if found.st_size > longest:
        raise damaged(path, f"it is longer than {longest:,} bytes")
    return found


def read_json(path: Path, checked: Callable[[Any], T]) -> T | None:
    """``checked``, which may raise ValueError, applied to the JSON of ``path``; None without a file."""
    return read_checked(path, lambda content: checked(json_text.parse(content)))


def read_checked(path: Path, checked: Callable[[bytes], T]) -> T | None:
    """``checked``, which may raise ValueError, applied to the content of ``path``; None without a file."""
    content = read_bytes(path)
    try:
        return None if content is None else checked(content)
    except (ValueError, RecursionError) as error:
        raise damaged(path, str(error)) from None


def read_yaml(path: Path) -> Any:
    """The content of ``path`` as YAML, unknown tags as text with their values; None if there is no file."""
    content = read_bytes(path)
    try:
        if content is None:
            return None
        loader = _Plain(content)
        node = loader.get_single_node()
        _refuse_many(node)
        if isinstance(node, yaml.MappingNode):
            # An object with its attributes.
            node.tag = loader.DEFAULT_MAPPING_TAG
        return node and loader.construct_document(node)
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        raise damaged(path, " ".join(str(error).split())) from None


def damaged(path: Path, reason: str) -> DamagedError:
    return DamagedError(f"{path} is damaged: {reason}", reason)


def _refuse_many(node: Any) -> None:
    """A ValueError if ``node`` has too many values below it, counted again wherever an alias repeats them."""
    left = [node]
    for _ in range(MOST_NODES):
        if not left:
            return
        parts = getattr(left.pop(), "value", ())
        if isinstance(parts, list):
            left += [one for part in parts for one in (part if isinstance(part, tuple) else (part,))]
    raise ValueError("it has too many values, or its aliases repeat too much")


class _Plain(yaml.SafeLoader):
    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, KeyError, AttributeError):
            # Of a scalar such as the date 2024-13-01.
            self.recursive_objects.pop(node, None)
            return node.value


def _as_text(loader: _Plain, tag: str, node: Any) -> str:
    value: Any = getattr(node, "value", "")
    if isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    elif isinstance(node, yaml.MappingNode):
        value = loader.construct_mapping(node, deep=True)
    return f"{tag.removeprefix('tag:yaml.org,2002:')} {value}".strip()


_Plain.add_multi_constructor("", _as_text)
