"""``cnnpool probe``, once its arguments are read."""

import argparse
import copy
import logging
import shutil
import sys
from contextlib import suppress
from pathlib import Path

import torch
from torch import nn

from cnnpool.cli_parser import assignment
from cnnpool.data import Dataset
from cnnpool.inspection import foreign
from cnnpool.inspection.examination import (
    Examination,
    build_probes,
    folder_of,
    name_of,
    outputs_of,
    with_labels,
)
from cnnpool.inspection.images import batch, read_data
from cnnpool.inspection.run import from_checkpoint, from_run
from cnnpool.inspection.subject import Built, Subject
from cnnpool.inspection.text import report, side_by_side
from cnnpool.probe import Batch
from cnnpool.surgery import Change, swap
from cnnpool.system.next_command import from_here, next_lines
from cnnpool.tables import printable

log = logging.getLogger(__name__)


def examine(asked: argparse.Namespace, arguments: list[str]) -> int:
    """Build, measure, perhaps swap and measure again, print, write.

    Args:
        asked: the arguments as they were read.
        arguments: the same as they were typed.

    Raises:
        ValueError: for anything that cannot be used.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(message)s")
    for name in ("samples", "size"):
        if getattr(asked, name) is not None and getattr(asked, name) < 2:
            raise ValueError(f"--{name} must be at least 2, got {getattr(asked, name)}")
    probes = build_probes(asked.probes, asked.set, asked.samples)
    subject = find(asked)
    folder = folder_of(asked.out, asked.model)
    dataset = read_data(subject, asked.data, asked.root, not asked.no_download, asked.size)
    built = subject.build(dataset)
    built.model.eval()
    images = batch(dataset, built.model, subject, samples=asked.samples, size=asked.size)
    outputs_of(built.model, images.images[:2])
    images, labels = with_labels(built.model, images, dataset)
    examination = Examination(asked, subject, built, dataset, images, labels, probes)
    width = shutil.get_terminal_size((160, 24)).columns
    if asked.swap is None:
        if asked.swap_set or asked.where:
            raise ValueError("--swap-set and --where need --swap")
        before = examination.of(built.model)
        sys.stdout.write(report(before.results, width))
        written = before.write(folder)
        after_this = ("cnnpool", "probe", *arguments, "--swap", "max_blur")
    else:
        swapped, changes = exchange(subject, built, dataset, images, asked)
        within = folder_of(str(folder / name_of(asked)), asked.model)
        log.info("as built:")
        before = examination.of(built.model)
        written = before.write(folder)
        log.info("with %s:", asked.swap)
        after = examination.of(swapped, changes)
        sys.stdout.write(side_by_side(before.results, after.results, width, whole=asked.all))
        written += after.write(within)
        after_this = ("cnnpool", "compare", from_here(folder))
    for at in dict.fromkeys(path.parent for path in written):
        names = ", ".join(path.name for path in written if path.parent == at)
        sys.stdout.write(f"\nresults: {printable(str(at))}\n  {names}\n")
    sys.stdout.write(next_lines(after_this))
    return 0


def find(asked: argparse.Namespace) -> Subject:
    """The subject that MODEL names: a run, a checkpoint, or a model by a name with a colon.

    Raises:
        ValueError: if it is none of these, or options do not fit it.
    """
    name, path = asked.model, Path(asked.model)
    source, _, rest = name.partition(":")
    checkpoint = Path(asked.checkpoint) if asked.checkpoint else None
    published = source in foreign.SOURCES
    if asked.weights and (checkpoint or not published):
        raise ValueError("--weights is for models of torchvision and timm, without --checkpoint")
    if path.is_dir():
        return from_run(path, checkpoint)
    if path.is_file():
        return from_checkpoint(path)
    if not rest:
        with suppress(FileNotFoundError):
            path.stat()
        raise ValueError(f"{name} is not a folder, a file, torchvision:NAME, timm:NAME or MODULE:FUNCTION")
    if published:
        subject = foreign.from_published(source, rest, asked.weights, asked.seed)
    else:
        subject = foreign.from_function(name, asked.seed)
    return foreign.with_checkpoint(subject, checkpoint) if checkpoint else subject


def exchange(
    subject: Subject, built: Built, dataset: Dataset, images: Batch, asked: argparse.Namespace
) -> tuple[nn.Module, list[Change]]:
    """A second model like ``built`` that has what ``--swap`` asks for.

    Raises:
        ValueError: if it cannot be done.
    """
    options = dict(map(assignment, asked.swap_set))
    if "example" in options or "where" in options:
        raise ValueError(f"{asked.swap} has no such option: example or where (see --where)")
    try:
        model = copy.deepcopy(built.model)
    except RuntimeError:
        # Weights that are computed from others cannot be copied.
        model = subject.build(dataset).model.eval()
    torch.manual_seed(asked.seed)
    return model, swap(model, asked.swap, example=images.images[:1], where=asked.where, **options)
