"""``cnnpool probe``, once its arguments are read."""

import argparse
import dataclasses
import logging
import shutil
import sys
from pathlib import Path

import torch
from torch import nn

from cnnpool.data import Dataset
from cnnpool.inspection import foreign, record
from cnnpool.inspection.images import batch, read_data
from cnnpool.inspection.measure import assignment, build_probes, measure, outputs_of, score
from cnnpool.inspection.run import from_checkpoint, from_run
from cnnpool.inspection.subject import Subject
from cnnpool.inspection.text import report
from cnnpool.probe import Batch, declared
from cnnpool.quantity import records
from cnnpool.run_folder.results import Results
from cnnpool.surgery import Change, swap
from cnnpool.surgery.stages import added, operators_of, stages_of
from cnnpool.system.hardware import environment, usable


def examine(asked: argparse.Namespace) -> int:
    """Build, perhaps swap, measure, print, write.

    Raises:
        ValueError: for anything that cannot be used.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(message)s")
    for name in ("samples", "size"):
        if getattr(asked, name) is not None and getattr(asked, name) < 2:
            raise ValueError(f"--{name} must be at least 2, got {getattr(asked, name)}")
    probes = build_probes(asked.probes, asked.set, asked.samples)
    subject = find(asked)
    folder = record.folder_of(asked.out, asked.model)
    dataset = read_data(subject, asked.data, asked.root, not asked.no_download)
    model = subject.build(dataset).eval()
    looked_at = batch(dataset, model, subject, samples=asked.samples, size=asked.size)
    changes = exchange(model, looked_at, asked)
    model = model.to(usable(asked.device))
    looked_at, labels = with_labels(model, looked_at, dataset)
    stages = stages_of(model, looked_at.images[:1].to(asked.device), changes)
    scores = {} if labels else {"test": score(model, looked_at.images, looked_at.labels)}
    measured = {**scores, **measure(model, stages, looked_at, probes)}
    results = dataclasses.replace(
        facts(asked, subject, dataset, looked_at, changes, labels),
        stages=operators_of(stages),
        measured=measured,
        quantities=records(declared(probes.values()), measured),
        environment=environment(torch.device(asked.device)),
    )
    sys.stdout.write(report(results, shutil.get_terminal_size((160, 24)).columns))
    # matplotlib is slow to load: only once there is something to draw.
    from cnnpool.inspection.pictures import draw

    written = [record.write(folder, results), *draw(folder, model, stages, looked_at, results)]
    sys.stdout.write("\nwrote " + ", ".join(str(path) for path in written) + "\n")
    return 0


def find(asked: argparse.Namespace) -> Subject:
    """The subject that MODEL names: a run, a checkpoint, or a model by a name with a colon.

    Raises:
        ValueError: if it is none of these, or options do not fit it.
    """
    name, path = asked.model, Path(asked.model)
    source, _, rest = name.partition(":")
    checkpoint = Path(asked.checkpoint) if asked.checkpoint else None
    published = source in ("torchvision", "timm")
    if asked.weights and (checkpoint or not published):
        raise ValueError("--weights is for models of torchvision and timm, without --checkpoint")
    if path.is_dir():
        return from_run(path, checkpoint)
    if path.is_file():
        return from_checkpoint(path)
    if not rest:
        raise ValueError(f"{name} is no folder or file, nor torchvision:NAME, timm:NAME or MODULE:FUNCTION")
    if source == "torchvision":
        subject = foreign.from_torchvision(rest, asked.weights, asked.seed)
    elif source == "timm":
        subject = foreign.from_timm(rest, asked.weights, asked.seed)
    else:
        subject = foreign.from_function(name)
    return foreign.with_checkpoint(subject, checkpoint) if checkpoint else subject


def exchange(model: nn.Module, looked_at: Batch, asked: argparse.Namespace) -> list[Change]:
    """Replace operators of the model in place, as ``--swap`` asks.

    Raises:
        ValueError: if it cannot be done.
    """
    outputs_of(model, looked_at.images[:2])
    if asked.swap is None:
        if asked.swap_set or asked.where:
            raise ValueError("--swap-set and --where say how to --swap, which is not given")
        return []
    options = dict(map(assignment, asked.swap_set))
    if "example" in options or "where" in options:
        raise ValueError(f"{asked.swap} has no such option: example or where (see --where)")
    torch.manual_seed(asked.seed)
    return swap(model, asked.swap, example=looked_at.images[:1], where=asked.where, **options)


def with_labels(model: nn.Module, looked_at: Batch, dataset: Dataset) -> tuple[Batch, str]:
    """The batch with labels that the model can answer, and a word where they are not the data set's.

    A model made for other classes is measured against its own answers to the unshifted images: consistency
    needs no true labels, and accuracies then say how often an answer stays what it was.
    """
    outputs = outputs_of(model, looked_at.images[:2]).shape[1]
    if outputs == dataset.num_classes:
        return looked_at, ""
    parts = [outputs_of(model, some).argmax(1) for some in looked_at.images.split(256)]
    return looked_at._replace(labels=torch.cat(parts)), (
        f"the model's own answers: it has {outputs} outputs, {dataset.name} {dataset.num_classes} classes"
    )


def facts(
    asked: argparse.Namespace,
    subject: Subject,
    dataset: Dataset,
    looked_at: Batch,
    changes: list[Change],
    labels: str,
) -> Results:
    """The examined model, described as a run's results.json describes the trained one."""
    run = subject.trained
    shown = "x".join(map(str, looked_at.images.shape[1:]))
    weights = subject.weights
    if any(True for change in changes for own in added(change.after) for _ in own.parameters()):
        weights += f"; what {asked.swap} brings of its own is random, seed {asked.seed}"
    swapped = {"name": asked.swap, **dict(map(assignment, asked.swap_set))}
    as_built = {"name": "as built"}
    return Results(
        run=str(asked.model) + (f"+{asked.swap}" if changes else ""),
        choice=asked.swap if changes else run.choice if run else "as built",
        pool=swapped if changes else run.pool if run else as_built,
        readout=run.readout if run else as_built,
        model=run.model if run else {"name": subject.name},
        data={"name": dataset.name},
        data_sha256=dataset.sha256,
        seed=run.seed if run else asked.seed,
        epochs=run.epochs if run else 0,
        examined={
            "model": subject.name,
            "weights": weights,
            "images": f"{len(looked_at.images)} test images of {dataset.name}, {shown}",
            "swapped": ", ".join(change.name for change in changes),
            "labels": labels,
        },
    )
