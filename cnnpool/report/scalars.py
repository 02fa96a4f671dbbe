"""Numbers in files of other programs: CSV, with a row a run or a step, and TensorBoard's event files."""

import csv
import logging
import math
import os
import re
import struct
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from cnnpool.run_folder.errors import DamagedError
from cnnpool.run_folder.reading import damaged, regular

STEPS = re.compile(r"(?i)epoch|step|iter|round|generation|episode")  # Columns that number steps of a run
HEADER, FOOTER = 12, 4  # Bytes around each record of an event file; the first eight say how long it is
Series = tuple["array[float]", "array[float]"]  # Steps, which rise, and the value at each
Line = tuple[int, Sequence[str]]  # The number of a row's last line, and its cells


@dataclass(frozen=True)
class Log:
    """The wanted curves of a CSV file, or of the event files in a folder, and the names of all there are."""

    path: Path
    tags: Collection[str]
    curves: Mapping[str, Series] = field(repr=False)
    problem: str = ""


def is_events(name: str) -> bool:
    return "tfevents" in name and not name.endswith(".profile-empty")


def numbers(cells: Sequence[Any], place: Callable[[int], str], decimal: str = ".") -> "array[float]":
    """The numbers in ``cells``, NaN included; a ValueError with its ``place`` for anything else."""
    found = array("d")
    for at, cell in enumerate(cells):
        text = str(cell).strip()
        own = text.translate({46: "?", 44: "."}) if decimal == "," and isinstance(cell, str) else cell
        try:
            # Python takes 1_000 for a number, and True for 1.
            found.append(float("" if "_" in text or text in ("True", "False") else own))
        except (TypeError, ValueError):
            comma = re.fullmatch(r"[-+]?\d+,\d+", text) and decimal == "."
            remedy = "decimal commas? give --decimal ," if comma else "write a plain one, or none"
            raise ValueError(f'{place(at)}: "{text}" is not a number: {remedy}') from None
    return found


def table(path: Path, named: Collection[str]) -> tuple[Sequence[str], list[Line]]:
    """The header and rows of a CSV file; a DamagedError if it is none, or its rows are not of one length."""
    try:
        regular(path, math.inf)
        with path.open(encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            file.seek(0)
            reader = csv.reader(file, delimiter=max(",;\t", key=first.count))
            lines: list[Line] = [(reader.line_num, row) for row in reader if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise damaged(path, str(getattr(error, "strerror", None) or error)) from None
    if len(lines) < 2:
        raise damaged(path, "it has no rows below a header")
    header = [name.strip() for name in lines.pop(0)[1]]
    for line, row in lines:
        if len(row) != len(header):
            raise damaged(path, f"line {line} has {len(row)} cells, and the header has {len(header)}")
    for name in named:
        if (count := header.count(name)) > 1:
            raise ValueError(f"{path}: {count} columns are called {name}: rename them")
    return header, lines


def csv_log(path: Path, wanted: Collection[str], decimal: str) -> Log:
    """The ``wanted`` columns of a CSV file with a row a step: another column must rise from row to row.

    Of several, which order rows alike, one called step or epoch gives the steps.
    """
    header, lines = table(path, wanted)
    for at, name in enumerate(header):
        if name.lower().endswith("seed") and len({row[at].strip() for _, row in lines} - {""}) > 1:
            raise ValueError(
                f"{path}: rows differ in {name}: give a table of runs by its name, not its folder"
            )
    others = [name for name in header if name not in wanted]
    known = "step", "epoch", ""
    others.sort(key=lambda name: [not (one in name.lower() and STEPS.search(name)) for one in known])
    curves = {}
    for tag in sorted({*wanted} & {*header}):
        rows = [line for line in lines if line[1][header.index(tag)].strip()]

        def column(name: str, rows: Sequence[Line] = rows) -> "array[float]":
            cells = [row[header.index(name)] for _, row in rows]
            return numbers(cells, lambda at: f"{path}, line {rows[at][0]}, {name}", decimal)

        if rows:
            values = column(tag)
            curves[tag] = _steps(path, rows, others, column), values
    return Log(path, header, curves)


def _steps(
    path: Path, rows: Sequence[Line], names: Sequence[str], column: Callable[[str], "array[float]"]
) -> "array[float]":
    why = ["none holds numbers"]
    forward: list[bool] = []
    for name in names:
        try:
            found = column(name)
        except ValueError:
            continue
        fall = next((at for at, (x, y) in enumerate(pairwise(found), 1) if not x < y), None)
        named = bool(STEPS.search(name))
        if fall is None:
            # A clock goes on where a restart repeats steps.
            if named or any(forward) or not forward:
                return found
            break
        if named and len({*found}) > 1 and all(x % 1 == 0 for x in found):
            forward.append(all(x <= y for x, y in pairwise(found)))
        here = f"goes from {found[fall - 1]:g} to {found[fall]:g} in line {rows[fall][0]}"
        why.append(f"{name or 'the first'} {here}")
    if len(rows) == 1:
        return array("d", [0])
    raise ValueError(
        f"{path}: no column of steps rises from row to row ({'; '.join(why[1:3] or why)}), so "
        "rows are not steps of one run: remove what a restart repeats, or give a table of runs by its name"
    )


def event_log(folder: Path, wanted: Collection[str]) -> Log:
    """The ``wanted`` scalars of the event files in ``folder``, as TensorBoard's own accumulator reads them.

    Where steps repeat or go back, as after a restart that purged nothing, what was logged later counts.
    """
    from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator
    from tensorboard.util.tensor_util import make_ndarray

    sizes = dict.fromkeys(event_accumulator.DEFAULT_SIZE_GUIDANCE, 1) | {"scalars": 0}
    # It warns of what it purges.
    logger = logging.getLogger("tensorboard")
    before, logger.disabled = logger.disabled, True
    try:
        problems = [_cut(folder / name) for name in sorted(os.listdir(folder)) if is_events(name)]
        read: Any = event_accumulator.EventAccumulator(str(folder), sizes).Reload()
        points = {tag: [(x.step, x.value) for x in read.Scalars(tag)] for tag in read.Tags()["scalars"]}
        plugins = {tag: one.plugin_data.plugin_name for tag, one in read.summary_metadata.items()}
        if tensors := [tag for tag in read.Tags()["tensors"] if plugins.get(tag) == "scalars"]:
            # Scalars as Keras writes them, which the accumulator above does not purge.
            read = plugin_event_accumulator.EventAccumulator(str(folder), {}, {"scalars": 0}).Reload()
            for tag in tensors:
                own = [(x.step, make_ndarray(x.tensor_proto)) for x in read.Tensors(tag)]
                points[tag] = [(step, float(x.item())) for step, x in own if x.size == 1]
    except DamagedError:
        raise
    # Errors of protobuf, which is no direct dependency.
    except Exception as error:
        raise damaged(folder, f"{type(error).__name__}: {' '.join(str(error).split())[:80]}") from None
    finally:
        logger.disabled = before
    curves = {tag: _forward(points[tag]) for tag in sorted(points.keys() & {*wanted})}
    lost = [tag for tag, (steps, _) in curves.items() if len(steps) < len(points[tag])]
    problems += [f"steps of {tag} repeat or go back: what was logged later counts" for tag in lost]
    return Log(folder, list(points), curves, "; ".join(filter(None, problems)))


def _forward(points: Sequence[tuple[int, float]]) -> Series:
    steps, values = array("d"), array("d")
    for step, value in points:
        while steps and step <= steps[-1]:
            steps.pop()
            values.pop()
        steps.append(step)
        values.append(value)
    return steps, values


def _cut(path: Path) -> str:
    """Why an event file ends within a record; empty if it does not."""
    size, at, records = regular(path, math.inf).st_size, 0, 0
    with path.open("rb") as file:
        while len(head := file.read(HEADER)) == HEADER:
            end = at + HEADER + struct.unpack_from("<Q", head)[0] + FOOTER
            if end > size:
                break
            at, records = file.seek(end), records + 1
    return "" if at == size > 0 else f"{path} is {f'cut after {records} records' if size else 'empty'}"
