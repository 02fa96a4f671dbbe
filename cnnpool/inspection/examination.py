"""The measurements of a model, by every probe at every stage of its downsampling."""

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from cnnpool.cli_parser import assignment
from cnnpool.data import Dataset
from cnnpool.inspection import record
from cnnpool.inspection.measure import measure, outputs_of, score
from cnnpool.inspection.subject import Built, Subject
from cnnpool.probe import Batch, Probe, declared
from cnnpool.quantity import records
from cnnpool.run_folder.results import Results
from cnnpool.surgery import Change
from cnnpool.surgery.functional_pooling import FunctionalPooling
from cnnpool.surgery.stages import added, operators_of, stages_of
from cnnpool.surgery.trace import dry_run, pools
from cnnpool.system.hardware import environment, usable
from cnnpool.system.progress import Progress


@dataclass(frozen=True)
class Examined:
    """A model after it was measured.

    Args:
        results: as they are written.
        model: as it was measured.
        stages: of it, by name.
        batch: the images that it was measured on.
    """

    results: Results
    model: nn.Module
    stages: Mapping[str, nn.Module]
    batch: Batch

    def write(self, folder: Path) -> list[Path]:
        """Write results.json and the pictures into ``folder``; the files written."""
        written = record.write(folder, self.results)
        with Progress("drawing pictures"):
            # matplotlib is slow to load: only once there is something to draw.
            from cnnpool.inspection.pictures import draw

            return [written, *draw(folder, self.model, self.stages, self.batch, self.results)]


@dataclass(frozen=True)
class Examination:
    """A model, the images it is measured on, and the probes.

    Args:
        asked: the arguments of the command.
        subject: the model as it was asked for.
        built: the same with its weights.
        dataset: of the images.
        images: that the model takes.
        labels: why those of the images are the built model's answers; empty if they are the data set's.
        probes: by name.
    """

    asked: argparse.Namespace
    subject: Subject
    built: Built
    dataset: Dataset
    images: Batch
    labels: str
    probes: Mapping[str, Probe]

    def of(self, model: nn.Module, changes: Sequence[Change] = ()) -> Examined:
        """Measure ``model``: the built one, or one like it after ``changes``.

        Raises:
            ValueError: if the model does not run on the images.
        """
        device = usable(self.asked.device)
        model = model.to(device)
        batch, labels = self.images, self.labels
        if labels:
            whose = "answers of the model as built" if changes else "model's own answers"
            labels = f"the {whose}: {labels}"
        example = batch.images[:1].to(device)
        functional = FunctionalPooling(model, pools)
        dry_run(model, example, functional)
        stages = stages_of(model, example, changes)
        scores = {} if labels else {"test": score(model, batch.images, batch.labels)}
        measured = {**scores, **measure(model, stages, batch, self.probes)}
        results = dataclasses.replace(
            self._facts(changes, {"labels": labels, "functional": str(functional)}),
            stages=operators_of(stages),
            measured=measured,
            quantities=records(declared(self.probes.values()), measured),
            environment=environment(torch.device(device)),
        )
        return Examined(results, model, stages, batch)

    def _facts(self, changes: Sequence[Change], more: Mapping[str, str]) -> Results:
        """The examined model, described as a run's results.json describes the trained one."""
        run, asked, shape = self.subject.trained, self.asked, self.images.images.shape
        weights = self.built.weights
        if any(True for change in changes for own in added(change.after) for _ in own.parameters()):
            weights += f"; what {asked.swap} brings of its own is random, seed {asked.seed}"
        swapped = {"name": asked.swap, **dict(map(assignment, asked.swap_set))}
        as_built = {"name": "as built"}
        images = f"{shape[0]} test images of {self.dataset.name}, {'x'.join(map(str, shape[1:]))}"
        return Results(
            run=str(asked.model) + (f"+{asked.swap}" if changes else ""),
            choice=asked.swap if changes else run.choice if run else "as built",
            pool=swapped if changes else run.pool if run else as_built,
            readout=run.readout if run else as_built,
            model=run.model if run else {"name": self.subject.name},
            data={"name": self.dataset.name},
            data_sha256=self.dataset.sha256,
            seed=run.seed if run else asked.seed,
            epochs=run.epochs if run else 0,
            examined={
                "model": self.subject.name,
                "weights": weights,
                "untrained": self.built.untrained,
                "images": images,
                "swapped": ", ".join(change.name for change in changes),
                **more,
            },
        )


def with_labels(model: nn.Module, batch: Batch, dataset: Dataset) -> tuple[Batch, str]:
    """The batch with labels that the model can answer, and why where they are not the data set's.

    A model made for other classes is measured against its own answers to the unshifted images: consistency
    needs no true labels, and accuracies then say how often an answer stays what it was. The same model
    swapped is measured against the same answers, so that its accuracy without a shift is their agreement.
    """
    outputs = outputs_of(model, batch.images[:2]).shape[1]
    if outputs == dataset.num_classes:
        return batch, ""
    labels = outputs_of(model, batch.images).argmax(1)
    return batch._replace(labels=labels), (
        f"it has {outputs} outputs, {dataset.name} {dataset.num_classes} classes"
    )


def name_of(asked: argparse.Namespace) -> str:
    """The choice that ``--swap`` makes, as a word: ``max_blur+filter_size=5``."""
    extra = [*asked.swap_set, *([f"where={asked.where}"] if asked.where else [])]
    return record.word("+".join([asked.swap, *sorted(extra)]))
