"""The measurements of a run, while it trains and at its end: test score, probes, pictures, results.json."""

import dataclasses
import logging
import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import torch
from lightning.pytorch import Trainer
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn import functional as F

from cnnpool.data import Dataset, Split
from cnnpool.data.draws import stratified
from cnnpool.explain.example import example
from cnnpool.explain.maps import field_figure, routing_figure, shift_figure, winner_figure, winner_panels
from cnnpool.explain.picture import figure
from cnnpool.fit.checkpoints import Checkpoints
from cnnpool.fit.loggers import Guarded
from cnnpool.fit.record import Record
from cnnpool.fit.run_state import Run
from cnnpool.fit.scores import by_class, chance_warning, sentence
from cnnpool.lightning import ProbeCallback
from cnnpool.model import Cnn
from cnnpool.pool.dispatch import kernels_in_use
from cnnpool.probe import Batch, Probe
from cnnpool.probe.base import ends_of, scalars
from cnnpool.probe.gradient_taps import stage_gradients
from cnnpool.probe.receptive_field import receptive_fields
from cnnpool.probe.shift import at_once
from cnnpool.quantity import records
from cnnpool.registry import KEEP
from cnnpool.run_folder import layout, routing
from cnnpool.run_folder.checkpoint import load
from cnnpool.run_folder.results import Results, packed, write
from cnnpool.system.hardware import environment, release_memory
from cnnpool.system.progress import Progress

log = logging.getLogger(__name__)

LEFT = (f"{layout.CHECKPOINTS}/{layout.LAST}", f"{layout.CHECKPOINTS}/{layout.BEST}")
SAMPLES = 2048
LARGEST = 320 << 20  # Bytes of the probe images as floats: more than 512 images of 224 pixels
MAPPED, SHOWN, ROUTED = 128, 8, 4  # Images of receptive fields, of the routing in a log, and in the report
LONGEST = 128  # Longest side of a picture in the report, in pixels; larger pictures are no clearer
Sections = dict[str, dict[str, Any]]


def looked_at(probes: Iterable[Probe]) -> int:
    """The most images that any of ``probes`` uses, from its options that count images; at least one."""
    counts = [[v for key, v in vars(each).items() if key.endswith("samples")] for each in probes]
    return max((max(own, default=SAMPLES) for own in counts), default=1)


def measuring(run: Run) -> list[ProbeCallback]:
    """The probes that run while ``run`` trains, on validation images or, without any, on training images."""
    # The end of the run measures all probes, also those whose epoch does not come.
    probes = [probe for probe in run.probes.values() if 0 < probe.every_epochs <= run.recipe.epochs]
    if not probes:
        return []
    split = run.dataset.val if len(run.dataset.val) else run.dataset.train
    # Large images take much memory, and probes at the end use other images.
    batch, net = sample(run.dataset, split, looked_at(probes)), run.network
    return [
        ProbeCallback(
            probe, every_epochs=probe.every_epochs, batch=batch, stages=net.stages, network=lambda module: net
        )
        for probe in probes
    ]


def sample(dataset: Dataset, split: Split, most: int = SAMPLES) -> Batch:
    """Up to ``most`` normalised images of ``split``, the same in every run, every prefix stratified."""
    channels, (height, width) = dataset.in_channels, dataset.size
    count = max(1, min(most, SAMPLES, LARGEST // (4 * channels * height * width)))
    chosen = split.take(stratified(split.labels, seed=0)[:count])
    # In parts: all at once would take three times their memory.
    parts = dataset.plain_loader(chosen, batch_size=min(64, len(chosen)))
    images = torch.empty(len(chosen), channels, height, width).contiguous(memory_format=torch.channels_last)
    done = 0
    for some, _ in parts:
        images[done : done + len(some)] = some
        done += len(some)
    return Batch(images, chosen.labels, *ends_of(dataset.mean, dataset.std))


def test(run: Run, trainer: Trainer) -> None:
    """Test the last weights and those of the best epoch, if it is another; those of ``fit.test`` remain."""
    # Lightning would log them at its own step count.
    trainer.loggers = []
    net, folder = run.classifier, run.out / layout.CHECKPOINTS
    found = {"last": {key: value.clone() for key, value in net.state_dict().items()}}
    if len(run.dataset.val) and (folder / layout.BEST).exists():
        content = load(folder / layout.BEST)
        if content["cnnpool"]["steps"] != net.steps:
            found["best"] = content["state_dict"]
            if run.recipe.test == "best":
                net.latest["val"] = content["cnnpool"]["latest"]["val"]
    accuracies = {}
    # The chosen ones last.
    for name in sorted(found, key=lambda name: name == run.recipe.test):
        net.load_state_dict(found[name])
        trainer.test(net, datamodule=run.images, verbose=False)
        accuracies[f"{name}_accuracy"] = net.latest["test"]["accuracy"]
    net.latest["test"] |= accuracies if len(found) > 1 else {}


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
            try:
                draw((record, *others), run.network, batch, results)
            # Operators of others may raise any exception, and no picture is worth the results.
            except Exception as error:
                log.warning("not every picture is drawn: %s", " ".join(str(error).split()))
    record.close()
    layout.refuse_lost(run.out, run.run_id, LEFT)
    if "gradient" in measured:
        routing.write(run.out, routing_of(run.network, batch))
    results = dataclasses.replace(results, finished=datetime.now(UTC).isoformat(timespec="seconds"))
    write(run.out, results)
    _tell(run, results.measured["test"])
    return results


def _tell(run: Run, scores: dict[str, Any]) -> None:
    weights = "the best epoch" if run.recipe.test == "best" else "the last step"
    log.info("test accuracy %.2f %%   loss %.4f   (%s)", 100 * scores["accuracy"], scores["loss"], weights)
    if "class_accuracy" in scores:
        log.info("%s", sentence(scores))
    # ``max_steps`` marks a smoke test: skip the warning.
    if run.recipe.max_steps is None and (
        warning := chance_warning(scores["accuracy"], run.dataset.counts["test"], run.classifier.steps)
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
        deterministic=torch.get_deterministic_debug_mode() == 2,
        data_sha256=run.dataset.sha256,
        fit=dataclasses.asdict(run.recipe),
        precision=str(trainer.precision),
        seed=run.seed,
        epochs=math.ceil(net.steps / net.steps_of_epoch),
        steps=net.steps,
        measured=sections,
        quantities=records(run.quantities, sections),
        correct=packed(net.correct.numpy()),
        images=images_of(run.dataset),
        environment={**environment(trainer.strategy.root_device), "kernels": kernels_in_use()},
    )


def images_of(dataset: Dataset) -> dict[str, Any]:
    return {"classes": list(dataset.classes), **dataset.counts, "skipped": dict(dataset.skipped)}


def draw(loggers: Sequence[Record | Guarded], model: Cnn, batch: Batch, results: Results) -> None:
    """Shift, routing, winner and receptive-field maps, worked examples, histograms of gradients."""
    images, labels = batch.images, batch.labels
    step, measured = results.steps, results.measured

    def show(tag: str, picture: Figure) -> None:
        for logger in loggers:
            logger.figure(tag, picture, step)

    if accuracy := measured.get("invariance", {}).get("accuracy_over_shifts"):
        maps = {"test accuracy of shifted images": accuracy}
        show("view/shifted_accuracy", shift_figure(maps, "accuracy"))
    taps = stage_gradients(model, model.stages, images[:SHOWN], labels[:SHOWN])
    gradients = {stage: tap.gradient for stage, tap in taps.items()}
    show("view/gradient_routing", routing_figure(images[:SHOWN], gradients))
    for stage, gradient in gradients.items():
        for logger in loggers:
            if isinstance(logger, Record):
                logger.experiment.add_histogram(f"gradient/at_input/{stage}", gradient, step)
    # Each stage takes a separate backward pass: hundreds of large images take minutes.
    mapped = images[: min(MAPPED, at_once(images, kept=True))]
    fields = {
        stage: (field / field.max().clamp_min(1e-300)).tolist()
        for stage, field in receptive_fields(model, model.stages, mapped).items()
    }
    if fields:
        show("view/receptive_field", field_figure(fields, "mean |gradient|, largest 1"))
    if winners := winner_panels(measured.get("gradient", {})):
        show("view/winners", winner_figure(winners))
    for name in (results.pool["name"], results.readout["name"]):
        if name != KEEP:
            show(f"view/worked_example/{name}", figure(example(name)))


def routing_of(model: Cnn, batch: Batch) -> routing.Routing:
    """The first images of ``batch``, each scaled to its range, and the shares of channels with gradient."""
    images, labels, *_ = batch.first(ROUTED)
    taps = stage_gradients(model, model.stages, images, labels)
    shares = {stage: (tap.gradient != 0).double().mean(1, keepdim=True) for stage, tap in taps.items()}
    low, high = images.amin((1, 2, 3), keepdim=True), images.amax((1, 2, 3), keepdim=True)
    grey = images if images.shape[1] == 3 else images.mean(1, keepdim=True)
    shown = _reduced(255 * (grey - low) / (high - low).clamp_min(1e-9)).round().to(torch.uint8)
    return routing.Routing(
        shown.permute(0, 2, 3, 1).cpu().numpy(),
        {stage: _reduced(share).squeeze(1).cpu().numpy() for stage, share in shares.items()},
    )


def _reduced(maps: Tensor) -> Tensor:
    longest = max(maps.shape[-2:])
    if longest <= LONGEST:
        return maps
    size = [max(1, side * LONGEST // longest) for side in maps.shape[-2:]]
    return F.interpolate(maps, size, mode="area")
