"""Files below a folder that the tab reads, each with what tells whether it has changed."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cnnpool.choose import live_file
from cnnpool.report.runs import MEANS
from cnnpool.run_folder import layout, plan

READ = (layout.RESULTS, layout.STATUS, layout.METRICS, layout.ROUTING)
MARKS = {layout.RESULTS, layout.STATUS, layout.METRICS}
Kind = Literal["run", "plan", "study"]
Stamp = tuple[str, int, int, int]
"""Of a file: its name, time of change in ns, size and inode."""
Signature = tuple[Stamp, ...]
"""Of every file that is read of one thing, sorted."""


@dataclass(frozen=True)
class Found:
    """A run's folder, the file of a sweep's plan, or that of a study of ``cnnpool choose``.

    Args:
        kind: which of them.
        path: of the folder or file.
        signature: another one whenever something of it has changed.
    """

    kind: Kind
    path: Path
    signature: Signature


@dataclass
class Entries:
    """The content of one folder, as far as it is of interest."""

    files: list[Stamp] = field(default_factory=list)
    studies: list[Stamp] = field(default_factory=list)
    below: list[str] = field(default_factory=list)
    settings: bool = False
    plans: bool = False


def scan(root: Path) -> Iterator[Found]:
    """Every run, plan and study below ``root``; folders that are links are not entered."""
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            entries = _entries(folder)
        except OSError:
            # Gone since, or not ours to read.
            continue
        if entries.plans:
            yield from _plans(folder / plan.FOLDER)
        yield from (Found("study", folder / stamp[0], (stamp,)) for stamp in entries.studies)
        below = entries.below
        marked = any(name in MARKS for name, *_ in entries.files)
        if marked or (entries.settings and (folder / layout.SETTINGS / "config.yaml").is_file()):
            yield Found("run", folder, tuple(sorted(entries.files)))
            below = [name for name in below if name != layout.CHECKPOINTS]
        waiting += [folder / name for name in below]


def _entries(folder: Path) -> Entries:
    found = Entries()
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            if entry.is_dir(follow_symlinks=False):
                found.settings |= name == layout.SETTINGS
                found.plans |= name == plan.FOLDER
                if not name.startswith(".") and name != MEANS:
                    found.below.append(name)
            elif name in READ:
                found.files.append(_stamp(entry))
            elif name == live_file.FILE and entry.is_file(follow_symlinks=False):
                found.studies.append(_stamp(entry))
    return found


def _plans(folder: Path) -> Iterator[Found]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                hidden = entry.name.startswith(".") or not entry.name.endswith(plan.SUFFIX)
                if not hidden and entry.is_file(follow_symlinks=False):
                    yield Found("plan", folder / entry.name, (_stamp(entry),))
    except OSError:
        return


def _stamp(entry: os.DirEntry[str]) -> Stamp:
    stat = entry.stat(follow_symlinks=False)
    return entry.name, stat.st_mtime_ns, stat.st_size, stat.st_ino
