"""The end of a run on disk: the last scalars, TensorBoard's pages, results.json."""

import dataclasses
import logging
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import torch

from cnnpool.data import Dataset
from cnnpool.fit import chance
from cnnpool.fit.by_class import sentence
from cnnpool.fit.measure import Measured
from cnnpool.fit.metrics_writer import MetricsWriter
from cnnpool.fit.pictures import draw
from cnnpool.fit.prepare import Training
from cnnpool.fit.routing import routing_of
from cnnpool.fit.train import Trained
from cnnpool.model import Cnn
from cnnpool.pool.dispatch import kernels_in_use
from cnnpool.probe import Batch
from cnnpool.probe.tags import scalars
from cnnpool.quantity import records
from cnnpool.run_folder import layout, routing
from cnnpool.run_folder.correct import packed
from cnnpool.run_folder.results import Results, write
from cnnpool.system.hardware import environment, release_memory
from cnnpool.system.progress import Progress

log = logging.getLogger(__name__)

LEFT = (f"{layout.CHECKPOINTS}/{layout.LAST}", f"{layout.CHECKPOINTS}/{layout.BEST}")


def record(run: Training, trained: Trained, measured: Measured, writer: MetricsWriter) -> Results:
    """Write the end of ``run`` into its folder, results.json last.

    Raises:
        LostError: if somebody else has deleted any of what the run left before.
    """
    results = results_of(run, trained, measured)
    # Probes read during training have a curve already, on the validation images.
    curves = {probe.section for probe in run.probes.values() if probe.every_epochs}
    final = {section: result for section, result in measured.sections.items() if section not in curves}
    values = scalars(run.quantities, {"test": trained.test, **final})
    close(writer, results, values, run.model, measured.batch, pictures=run.recipe.pictures)
    layout.refuse_lost(run.out, run.name, LEFT)
    if "gradient" in measured.sections:
        routing.write(run.out, routing_of(run.model, measured.batch))
    results = dataclasses.replace(
        results,
        metrics_sha256=writer.metrics.digest(),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    write(run.out, results)
    log.info("test accuracy %.2f %%   loss %.4f", 100 * trained.test["accuracy"], trained.test["loss"])
    if "class_accuracy" in trained.test:
        log.info("%s", sentence(trained.test))
    # A run with a limit of steps is a quick check, of which nobody expects much.
    if run.recipe.max_steps is None and (
        said := chance.warning(trained.test["accuracy"], run.dataset.counts["test"])
    ):
        log.warning("%s", said)
    return results


def results_of(run: Training, trained: Trained, measured: Measured) -> Results:
    """The results of the run, without the time of its end."""
    sections = {"test": trained.test, **trained.metrics.latest, **measured.sections}
    return Results(
        **dataclasses.asdict(run.facts),
        deterministic=torch.are_deterministic_algorithms_enabled(),
        data_sha256=run.dataset.sha256,
        fit=dataclasses.asdict(run.recipe),
        precision=trained.precision,
        seed=run.seed,
        epochs=math.ceil(run.module.steps / len(run.train)),
        steps=run.module.steps,
        measured=sections,
        quantities=records(run.quantities, sections),
        correct=packed(trained.correct.numpy()),
        images=images_of(run.dataset),
        environment={**environment(trained.device), "kernels": kernels_in_use()},
    )


def images_of(dataset: Dataset) -> dict[str, Any]:
    """The classes, how many images of each there were in every split, and the files left out."""
    return {"classes": list(dataset.classes), **dataset.counts, "skipped": dict(dataset.skipped)}


def close(
    writer: MetricsWriter,
    results: Results,
    values: Mapping[str, float],
    model: Cnn,
    batch: Batch,
    *,
    pictures: bool,
) -> None:
    """Write the last scalars and the pages of a finished run to its loggers."""
    assert results.steps is not None and results.epochs is not None
    writer.scalars(results.steps, results.epochs, values)
    writer.finish(results)
    if pictures:
        release_memory(garbage=False)
        with Progress("drawing pictures"):
            draw(writer, model, batch, results)
    writer.close()
