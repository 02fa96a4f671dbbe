"""One training: settings -> data -> classifier -> Trainer -> fit -> test -> measure -> record."""

import dataclasses
import logging
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import yaml

from cnnpool import data, network, probe
from cnnpool.choices import is_published, located
from cnnpool.data import Dataset
from cnnpool.data.image_source import ImageSource
from cnnpool.pool.dispatch import kernels_in_use
from cnnpool.recipe import TensorBoard, TrainerFlags, Wandb
from cnnpool.run_folder import checkpoint, layout
from cnnpool.run_folder.identity import as_json, identity_settings, is_longer
from cnnpool.run_folder.results import Results
from cnnpool.system.atomic import write_text
from cnnpool.system.hardware import keep_memory
from cnnpool.system.process import importing, rank
from cnnpool.system.progress import Progress
from cnnpool.system.signals import Signals

if TYPE_CHECKING:
    from cnnpool.fit import Callback, Classifier, Logger, Run
    from cnnpool.published import Published

log = logging.getLogger(__name__)

Settings = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Own:
    """A script's own parts of a training; ``classifier`` is a subclass of ``Classifier``."""

    callbacks: Sequence["Callback"] = ()
    loggers: Sequence["Logger"] = ()
    classifier: "type[Classifier] | None" = None


def train(
    settings: Settings,
    out: Path,
    name: str,
    overrides: list[str],
    chosen: Sequence[TensorBoard],
    own: Own = Own(),
) -> Results | None:
    """Train, test and measure the network that ``settings`` describe, and write the run to ``out``.

    A stopped run goes on from its last checkpoint, bit-identical to an uninterrupted one. ``name`` is its
    folder below the output root, ``overrides`` the command line, ``chosen`` the logs beside TensorBoard.
    Returns the content of ``results.json``, or None in all processes but the first; raises DivergedError,
    DamagedError (checkpoint), Stopped, ValueError.
    """
    run = prepare(settings, out, name, overrides, own.classifier)
    # Imported late, so that missing data is reported without waiting for Lightning.
    from cnnpool.fit import callbacks
    from cnnpool.fit.checkpoints import Checkpoints
    from cnnpool.fit.loggers import bring_up, logging_to
    from cnnpool.fit.record import Record
    from cnnpool.fit.results import conclude, measuring, test
    from cnnpool.fit.run_state import resume
    from cnnpool.fit.trainer import build_trainer, group_left, quieten

    start = resume(run)
    longer = start is not None and is_longer(start.header["asked"], run.classifier.header["asked"])
    if longer and not rank():
        save_settings(run, settings)
    quieten()
    logs, given = ((), ()) if rank() else (chosen, own.loggers)
    with logging_to(logs, out, run, given) as others, Signals() as signals, group_left():
        kept = start.metrics["metrics_bytes"] if start else 0
        tags = [tag for one in chosen if isinstance(one, Wandb) for tag in one.tags]
        record = None if rank() else Record(out, kept, run.quantities, tags)
        loggers = [record, *others] if record else []
        saving = Checkpoints(out, run.run_id, record, signals)
        if record:
            bring_up(others, record.records, out)
        more = [*callbacks.build(settings.get("callback") or {}), *own.callbacks]
        trainer = build_trainer(run.recipe, run.flags, [*more, *measuring(run), saving], loggers)
        ended = start and not longer and start.header["steps"] >= start.header["total_steps"]
        if start and (ended or start.metrics["stopped"]):
            run.classifier.restore(start.content)
            saving.load_state_dict(start.metrics)
        else:
            path = start.path if start else None
            trainer.fit(
                run.classifier, datamodule=run.images, ckpt_path=path, weights_only=bool(path) or None
            )
        test(run, trainer)
        return conclude(run, trainer, saving, record, others) if record else None


def try_out(settings: Settings, own: Own = Own()) -> None:
    """Lightning's ``fast_dev_run``: some batches of training, validation and test; no probes, no files."""
    run = parts(settings, own.classifier)
    # Imported late, like above.
    from cnnpool.fit import callbacks
    from cnnpool.fit.trainer import build_trainer, group_left, quieten

    quieten()
    with group_left():
        chosen = [*callbacks.build(settings.get("callback") or {}), *own.callbacks]
        trainer = build_trainer(run.recipe, TrainerFlags(**settings["trainer"]).given, chosen, [])
        trainer.fit(run.classifier, datamodule=run.images)
        trainer.test(run.classifier, datamodule=run.images, verbose=False)


def parts(settings: Settings, kind: "type[Classifier] | None" = None) -> "Run":
    """The run that ``settings`` describe, with its images and network, before it has a folder.

    ``kind`` is its class of ``Classifier``.
    """
    seed, fit, given = settings["seed"], settings["fit"], settings
    if is_published(settings):
        # Imported late, here and below: a network of our own needs none of it.
        from cnnpool.published.build import preset_of, sentence, sized

        settings = {**settings, "data": sized(settings)}
    dataset = data.build(**settings["data"], seed=seed)
    # Imported late, so that missing data is reported without waiting for Lightning.
    with Progress("loading Lightning"), importing():
        from cnnpool.fit import Classifier, Images, Run

    random.seed(seed)
    torch.manual_seed(seed)
    if fit["keep_memory"]:
        keep_memory()
    shapes = network.Images(dataset.in_channels, dataset.size, dataset.num_classes)
    net, stages = network.build(settings, shapes)
    described = {key: as_json(settings[key]) for key in ("pool", "readout", "model", "data")}
    if is_published(settings):
        from cnnpool.published import Published

        assert isinstance(net, Published)
        resized = settings["data"] != given["data"]
        if taken := sentence(preset_of(settings), net.loaded, resized=resized):
            log.info("%s", taken)
        net.try_training(dataset.size)
        dataset = normalised(dataset, net)
        if net.loaded.sha256:
            described["model"] |= {
                "weights_sha256": net.loaded.sha256,
                "weights_new": list(net.loaded.new),
                "mean": dataset.mean,
                "std": dataset.std,
            }
    images = Images(dataset, accumulate=fit["accumulate"], channels_last=fit["channels_last"])
    with located("data", settings["data"]):
        net.initialize(images.train_dataloader())
    stages = as_json(stages)
    made = {"model": described["model"], "stages": stages, "readout": described["readout"]}
    classifier = (kind or Classifier)(as_json(made), known_of(dataset), dict(fit), seed, model=net)
    return Run(seed=seed, images=images, classifier=classifier, stages=stages, **described)


def known_of(dataset: Dataset) -> dict[str, Any]:
    """Facts about the images by which a classifier reads others like them."""
    known = {
        "in_channels": dataset.in_channels,
        "size": list(dataset.size),
        "whole": list(dataset.test.shape[1:]),  # Larger than ``size`` with ``data.resize``
        "classes": list(dataset.classes),
        "mean": list(dataset.mean),
        "std": list(dataset.std),
    }
    if dataset.white is not None:
        known["white"] = dataset.white
    if isinstance(dataset.source, ImageSource):
        known["max_megapixels"] = dataset.source.max_megapixels
    return known


def prepare(
    settings: Settings,
    out: Path,
    name: str,
    overrides: list[str],
    kind: "type[Classifier] | None",
) -> "Run":
    """Make a run and its folder, and record everything that determines the result."""
    probes = {key: probe.build(key, **options) for key, options in settings["probe"].items()}
    run = parts(settings, kind)
    from cnnpool.fit import callbacks
    from cnnpool.fit.trainer import in_batches, precision_of

    if run.recipe.test == "best" and not len(run.dataset.val):
        raise ValueError("fit.test=best needs validation images: raise data.val_size, or take fit.test=last")
    named = settings.get("callback") or {}
    # A script's own code, or a package's, may log more scores.
    if not {"callbacks", "classifier"} & settings.keys() and named.keys() <= callbacks.CALLBACKS.keys():
        splits = ["train", "val"] if len(run.dataset.val) else ["train"]
        callbacks.refuse_unmeasured(callbacks.build(named), splits)
    run.flags = in_batches(TrainerFlags(**settings.get("trainer", {})).given, run.images)
    run.out, run.run, run.probes, run.overrides = out, name, probes, overrides
    run.asked = identity_settings(settings)
    # Precision, data and initial weights are not settings, but they must match a checkpoint too.
    facts = {**run.asked, "precision": precision_of(run.recipe), "data_sha256": run.dataset.sha256}
    if "weights_sha256" in run.model:
        facts["weights_sha256"] = run.model["weights_sha256"]
    run.classifier.header = checkpoint.header(facts, kernels_in_use())
    out.mkdir(parents=True, exist_ok=True)
    if not rank():
        run.run_id = layout.begin(out)
        if not any((out / layout.CHECKPOINTS).glob("*.ckpt")):
            save_settings(run, settings)
    return run


def save_settings(run: "Run", settings: Settings) -> None:
    """Write the settings, with the parts and the recipe as results.json has them, and the command line."""
    folder = run.out / layout.SETTINGS
    folder.mkdir(exist_ok=True)
    prefix = layout.temp_prefix(run.out)
    parts = {
        "data": run.data,
        "model": run.model,
        "stages": run.stages,
        "fit": dataclasses.asdict(run.recipe),
    }
    for name, content in (("config.yaml", as_json({**settings, **parts})), ("overrides.yaml", run.overrides)):
        write_text(folder / name, yaml.safe_dump(content, sort_keys=False, allow_unicode=True), prefix=prefix)


def normalised(dataset: Dataset, net: "Published") -> Dataset:
    """``dataset`` normalised as the weights of ``net`` expect, if known; grey by the mean over channels."""
    mean, std = net.loaded.mean, net.loaded.std
    if mean is None or std is None:
        return dataset
    if len(mean) != dataset.in_channels:
        mean, std = ((sum(one) / len(one),) * dataset.in_channels for one in (mean, std))
    return dataclasses.replace(dataset, mean=mean, std=std)
