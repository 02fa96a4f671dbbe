"""The end of a run: test score, probes, record, results.json."""

import dataclasses
import logging
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import torch
from lightning.pytorch import Trainer

from cnnpool.data import Dataset
from cnnpool.fit.checkpoints import Checkpoints
from cnnpool.fit.loggers import Guarded
from cnnpool.fit.pictures import draw, routing_of
from cnnpool.fit.probe_batch import sample
from cnnpool.fit.record import Record
from cnnpool.fit.run_state import Run
from cnnpool.fit.scores import by_class, chance_warning, sentence
from cnnpool.pool.dispatch import kernels_in_use
from cnnpool.probe import Batch
from cnnpool.probe.base import scalars
from cnnpool.quantity import records
from cnnpool.run_folder import layout, routing
from cnnpool.run_folder.results import Results, packed, write
from cnnpool.system.hardware import environment, release_memory
from cnnpool.system.progress import Progress

log = logging.getLogger(__name__)

LEFT = (f"{layout.CHECKPOINTS}/{layout.LAST}", f"{layout.CHECKPOINTS}/{layout.BEST}")
Sections = dict[str, dict[str, Any]]


def test(run: Run, trainer: Trainer) -> None:
    # Lightning would log them at its own step count.
    trainer.loggers = []
    trainer.test(run.classifier, datamodule=run.images, verbose=False)


def measure(run: Run, device: torch.device) -> tuple[Sections, Batch]:
    """The result of every probe on test images, by section, and the images used."""
    # Otherwise memory freed by training on large images would add to that of the probes.
    release_memory(garbage=False)
    batch = sample(run.dataset, run.dataset.test)
    # Lightning has moved it back to the CPU.
    net = run.network.to(device)
    sections = {}
    if run.probes:
        log.info("measuring: %s", ", ".join(run.probes))
    with Progress("measuring", len(run.probes), "probes") as progress:
        for probe in run.probes.values():
            sections[probe.section] = probe.measure(net, net.stages, *batch)
            progress.step()
    net.cpu()
    return sections, batch


def conclude(
    run: Run, trainer: Trainer, saving: Checkpoints, record: Record, others: Sequence[Guarded]
) -> Results:
    """Measure the trained model and write the final files of ``run`` to its folder, results.json last."""
    measured, batch = measure(run, trainer.strategy.root_device)
    measured["cost"] = measured.get("cost", {}) | saving.cost
    results = _results(run, trainer, measured)
    assert results.steps is not None and results.epochs is not None
    # Probes read at the end of the last epoch already have a value there, on the validation images.
    read = {p.section for p in run.probes.values() if p.every_epochs and not results.epochs % p.every_epochs}
    read |= {"train", "val"}
    values = {section: numbers for section, numbers in results.measured.items() if section not in read}
    for logger in (record, *others):
        tags = scalars(run.quantities, values)
        logger.log_metrics({**tags, "epoch": results.epochs}, results.steps)
    record.finish(results)
    if run.recipe.pictures:
        release_memory(garbage=False)
        with Progress("drawing pictures"):
            draw((record, *others), run.network, batch, results)
    record.close()
    layout.refuse_lost(run.out, run.mark, LEFT)
    if "gradient" in measured:
        routing.write(run.out, routing_of(run.network, batch))
    results = dataclasses.replace(results, finished=datetime.now(UTC).isoformat(timespec="seconds"))
    write(run.out, results)
    _tell(run, results.measured["test"])
    return results


def _tell(run: Run, scores: dict[str, Any]) -> None:
    log.info("test accuracy %.2f %%   loss %.4f", 100 * scores["accuracy"], scores["loss"])
    if "class_accuracy" in scores:
        log.info("%s", sentence(scores))
    # ``max_steps`` marks a smoke test: skip the warning.
    if run.recipe.max_steps is None and (
        warning := chance_warning(scores["accuracy"], run.dataset.counts["test"])
    ):
        log.warning("%s", warning)


def _results(run: Run, trainer: Trainer, measured: Sections) -> Results:
    net = run.classifier
    assert net.correct is not None
    sections: Sections = {**net.latest, **measured}
    if run.dataset.source.by_class:
        # With ``trainer.limit_test_batches`` only the first images are tested.
        labels = run.dataset.test.labels[: len(net.correct)]
        sections["test"] |= by_class(net.correct, labels, run.dataset.classes)
    described = {name: getattr(run, name) for name in ("run", "choice", "pool", "readout", "model", "data")}
    return Results(
        **described,
        stages=run.stages,
        overrides=run.overrides,
        asked=run.asked,
        deterministic=torch.are_deterministic_algorithms_enabled(),
        data_sha256=run.dataset.sha256,
        fit=dataclasses.asdict(run.recipe),
        precision=str(trainer.precision),
        seed=run.seed,
        epochs=math.ceil(net.steps * run.recipe.accumulate / run.images.batches_of_epoch),
        steps=net.steps,
        measured=sections,
        quantities=records(run.quantities, sections),
        correct=packed(net.correct.numpy()),
        images=images_of(run.dataset),
        environment={**environment(trainer.strategy.root_device), "kernels": kernels_in_use()},
    )


def images_of(dataset: Dataset) -> dict[str, Any]:
    return {"classes": list(dataset.classes), **dataset.counts, "skipped": dict(dataset.skipped)}
