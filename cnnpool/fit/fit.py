"""One run from a built model to results.json."""

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from cnnpool.data import Batches, Dataset
from cnnpool.fit import resume
from cnnpool.fit.checkpoint_callback import Checkpoints
from cnnpool.fit.metrics_callback import MetricsCallback
from cnnpool.fit.metrics_writer import MetricsWriter
from cnnpool.fit.module import Net
from cnnpool.fit.pictures import draw
from cnnpool.fit.probe_batch import sample
from cnnpool.fit.trainer import build_trainer, precision_of, quieten
from cnnpool.model import Cnn
from cnnpool.probe import Batch, Probe, declared
from cnnpool.probe.tags import scalars
from cnnpool.quantity import records
from cnnpool.recipe import Recipe
from cnnpool.run_folder.atomic import write_json
from cnnpool.system.hardware import environment, keep_memory
from cnnpool.system.process import rank
from cnnpool.system.progress import Progress
from cnnpool.system.signals import Signals

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What was asked of a run, as results.json repeats it.

    Args:
        run: the run's name, its folder below the output root.
        choice: the part of the name that all seeds of a choice share.
        pool, readout, model, data: the chosen names with their options.
        stages: the operator of every stage with its options.
        overrides: the command line.
        asked: all settings that decide the result, by which a later call knows the run again.
    """

    run: str
    choice: str
    pool: dict[str, Any]
    stages: dict[str, dict[str, Any]]
    readout: dict[str, Any]
    model: dict[str, Any]
    data: dict[str, Any]
    overrides: list[str] = field(default_factory=list)
    asked: dict[str, Any] = field(default_factory=dict)


def fit(
    model: Cnn,
    dataset: Dataset,
    probes: Mapping[str, Probe],
    *,
    recipe: Recipe,
    seed: int,
    out: Path,
    facts: Facts,
) -> dict[str, Any]:
    """Train ``model``, test it, measure it, and leave the run in ``out``.

    Goes on from ``out/checkpoints/last.ckpt`` where a run was stopped, to the same bits as one never stopped.

    Returns:
        The content of ``out/results.json`` (schema 1).

    Raises:
        DivergedError: if the loss stops being finite.
        DamagedError: if the checkpoint to go on from cannot be used.
        ValueError: if it belongs to a run with other settings.
        Stopped: after a signal, once a checkpoint is saved; at once after a second one.
    """
    out.mkdir(parents=True, exist_ok=True)
    if recipe.keep_memory:
        keep_memory()
    shard = (rank(), recipe.devices)
    shared = share(dataset, recipe.devices)
    train, val, test = (
        f(shard=shard) for f in (shared.train_batches, shared.val_batches, shared.test_batches)
    )
    steps = len(train) * recipe.epochs
    total = min(steps, recipe.max_steps or steps)
    asked = dict(facts.asked) or {
        "seed": seed,
        "pool": facts.stages,
        "readout": facts.readout,
        "model": facts.model,
    }
    # Arithmetic and data are no settings, but a checkpoint goes on with the same ones only.
    asked |= {"precision": precision_of(recipe), "data_sha256": dataset.sha256}
    quantities = declared(probes.values())
    module = Net(model, recipe, seed, total, resume.facts(asked))
    if recipe.channels_last:
        model.to(memory_format=torch.channels_last)
    found = resume.latest(out / "checkpoints")
    if found:
        resume.check(*found, asked, module)
    path, saved = found or (None, None)
    kept = saved["callbacks"]["MetricsCallback"]["metrics_bytes"] if saved else 0
    done = saved["cnnpool"]["steps"] if saved else 0
    if saved:
        log.info("resumed at step %s of %s", f"{done:,}", f"{total:,}")
    writer = None if rank() else MetricsWriter(out, done, kept, quantities)
    metrics = MetricsCallback(writer, probes, sample(dataset, dataset.val if val else dataset.train))
    quieten()
    with Signals() as signals:
        trainer = build_trainer(recipe, [metrics, Checkpoints(out / "checkpoints", metrics, signals)])
        settle([batches for batches in (train, val, test) if batches], trainer.strategy.root_device)
        if saved and saved["cnnpool"]["steps"] >= total:
            module.load_state_dict(saved["state_dict"])
            module.steps = saved["cnnpool"]["steps"]
            metrics.load_state_dict(saved["callbacks"]["MetricsCallback"])
        else:
            trainer.fit(module, train, val, ckpt_path=path, weights_only=True)
    trainer.test(module, test, verbose=False)
    tested = module.take(module.evaluation_sums)
    if writer is None:
        return {"test": tested}
    batch = sample(dataset, dataset.test)
    # Lightning has taken it back to the CPU.
    model.to(trainer.strategy.root_device)
    measured = {}
    if probes:
        log.info("measuring: %s", ", ".join(probes))
    with Progress("measuring", len(probes), "probes") as progress:
        for probe in probes.values():
            measured[probe.section] = probe.measure(model, model.stages, *batch)
            progress.step()
    model.cpu()
    speed = metrics.images / metrics.seconds if metrics.seconds else None
    cost = {"train_images_per_s": speed, "wall_s": time.perf_counter() - metrics.begun}
    measured["cost"] = measured.get("cost", {}) | cost
    results = {
        "schema": 1,
        **asdict(facts),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "data_sha256": dataset.sha256,
        "fit": asdict(recipe),
        "precision": str(trainer.precision),
        "seed": seed,
        "epochs": math.ceil(module.steps / len(train)),
        "steps": module.steps,
        "test": tested,
        **metrics.latest,
        **measured,
        "environment": environment(trainer.strategy.root_device),
    }
    results["quantities"] = records(quantities, results)
    # A probe that is read while it trains has its curve already, on the validation images.
    curves = {probe.section for probe in probes.values() if probe.every_epochs}
    final = {section: result for section, result in measured.items() if section not in curves}
    values = scalars(quantities, {"test": tested, **final})
    close(writer, results, values, model, batch, pictures=recipe.pictures)
    results["finished"] = datetime.now(UTC).isoformat(timespec="seconds")
    write_json(out / "results.json", results)
    log.info("test accuracy %.2f %%   loss %.4f", 100 * tested["accuracy"], tested["loss"])
    return results


def share(dataset: Dataset, devices: int) -> Dataset:
    """``dataset`` with batches of one device's share, so that all devices together take the batch asked for.

    Raises:
        ValueError: if the batch cannot be divided.
    """
    size = dataset.source.batch_size
    if size % devices:
        raise ValueError(f"data.batch_size={size} must be a multiple of fit.devices={devices}")
    return replace(dataset, source=replace(dataset.source, batch_size=size // devices))


def settle(batches: Sequence[Batches], device: torch.device) -> None:
    """Let ``batches`` be made on a GPU, if their images fit into a quarter of the memory that is free there.

    Elsewhere, and where there are too many, each batch is made on the CPU, and moved when it is needed.
    """
    if device.type == "cuda":
        images = sum(each.split.images.nbytes for each in batches)
        free, _ = torch.cuda.mem_get_info(device)
        if 4 * images <= free:
            for each in batches:
                each.move(device)


def close(
    writer: MetricsWriter,
    results: dict[str, Any],
    values: Mapping[str, float],
    model: Cnn,
    batch: Batch,
    *,
    pictures: bool,
) -> None:
    """Write what TensorBoard shows of a finished run, the last of its scalars among it."""
    writer.scalars(results["steps"], results["epochs"], values)
    writer.finish(results)
    if pictures:
        draw(writer.board, model, batch, results)
    writer.close()
