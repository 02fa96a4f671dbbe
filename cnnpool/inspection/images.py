"""Test images in the form that the examined model takes, and pictures of the measurements."""

import dataclasses
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from cnnpool import data
from cnnpool.data import Dataset
from cnnpool.data.augment import centre
from cnnpool.data.dataset import digest
from cnnpool.data.draws import stratified
from cnnpool.data.image_source import ImageSource
from cnnpool.inspection.subject import Subject
from cnnpool.probe import Batch
from cnnpool.probe.base import ends_of
from cnnpool.probe.gradient_taps import stage_gradients
from cnnpool.registry import lookup, options_of
from cnnpool.run_folder.results import Results

SAMPLES = 2048
OPTIONS = {"data.size=": "--size ", "set data.download=true": "give --download", "data.root=": "--root "}
"""Settings in messages about data -> the corresponding arguments of ``cnnpool probe``."""
SAME_PARTS = ("size", "resize", "channels", "limit", "limit_seed", "val_size")
"""Settings that change the data's identity, but not which images are the test images."""
NAMING = {"root", "path", "table", "dataset"}
"""Settings that name other images."""
SHOWN = 6
"""Number of images in a picture of gradients."""


def read_data(
    subject: Subject,
    name: str | None,
    root: str | None,
    download: bool,
    size: int | None = None,
    settings: Mapping[str, Any] = MappingProxyType({}),
    samples: int | None = None,
) -> Dataset:
    """The requested data set, else the model's own, else digits; of ``size``, else of the weights' size.

    ``settings`` are further ones of the data set, of which ``samples`` images are enough.
    """
    trained = subject.data or {}
    same = name in (None, trained.get("name"))
    options: dict[str, Any] = dict(trained) if trained and same else {"name": name or "digits"}
    if root is not None or not (trained and same):
        options["root"] = root or os.environ.get("CNNPOOL_DATA", "data")
    options |= {"download": download, **settings}
    wanted = size or subject.size
    if wanted is not None and options.get("size") is None:
        known = options_of(lookup(data.DATASETS, "datasets", options["name"]))
        # A data set with a default size keeps it unless another is requested.
        if "size" in known and (size or known["size"].default is None):
            options["size"] = wanted
    # All images of the training have its size and white, and are kept so.
    own = same and samples is None and root is None and not settings.keys() & NAMING
    try:
        return data.build(
            **options,
            samples=samples,
            alike={} if own else subject.alike,
            seed=subject.trained.seed if subject.trained and same else 0,
        )
    except ValueError as error:
        message = str(error)
        for key, option in OPTIONS.items():
            message = message.replace(key, option)
        raise ValueError(message) from error


def caution(
    subject: Subject, dataset: Dataset, samples: int | None, root: str | None, settings: Mapping[str, Any]
) -> str:
    """Whether a run is tested on other images than its own, in words; empty if not, or if that is unknown.

    A ValueError if it may have been trained on them, though nobody named other images.
    """
    run, source = subject.trained, dataset.source
    if run is None or run.data_sha256 is None or dataset.name != run.data["name"]:
        return ""
    # Published images are checked as they are read.
    if not isinstance(source, ImageSource):
        return ""
    origin = source.origin()
    own = dataclasses.replace(source, **{key: run.data[key] for key in SAME_PARTS if key in run.data})
    # Of many images that were never decoded here, only the samples are.
    if samples is not None and not own.kept(origin).exists():
        return ""
    now = dataset.sha256
    if samples is not None or own != source:
        try:
            now = digest(dataclasses.replace(own, stream=True).read(), own)
        except ValueError:
            return ""
    if now == run.data_sha256:
        return ""
    differ = f"data_sha256: {run.data_sha256[:12]} -> {now[:12]}"
    if origin.has_test:
        return f"other images than the run's ({differ})"
    if root is None and not settings.keys() & NAMING:
        raise ValueError(
            f"the run may have been trained on its test images: {dataset.name} in {source.root} or its split "
            f"has changed ({differ}), so they are drawn anew; restore it, or test all the same by --root "
            f"{shlex.quote(source.root)}"
        )
    return f"other images than the run's ({differ}), and it may have been trained on some of them"


def batch(
    dataset: Dataset, model: nn.Module, subject: Subject, *, samples: int | None, size: int | None
) -> Batch:
    """Test images for ``model``, stratified and shuffled; grey ones are repeated for several channels."""
    split = dataset.test
    chosen = split.take(stratified(split.labels, seed=0)[: min(samples or SAMPLES, SAMPLES)])
    images = centre(chosen.images, dataset.size).float() / 255
    convolutions = (module for module in model.modules() if isinstance(module, nn.Conv2d))
    wanted = next((one.in_channels for one in convolutions), images.shape[1])
    if wanted != images.shape[1]:
        if images.shape[1] != 1:
            raise ValueError(
                f"the model takes {wanted} channels, images of {dataset.name} have {images.shape[1]}"
            )
        images = images.expand(-1, wanted, -1, -1)
    if size is not None:
        images = F.interpolate(images, (size, size), mode="bilinear", antialias=True).clamp(0, 1)
    scales = subject.mean or dataset.mean, subject.std or dataset.std
    mean, std = (tuple(scale) * (wanted if len(scale) == 1 else 1) for scale in scales)
    means, stds = (torch.tensor(scale)[:, None, None] for scale in (mean, std))
    return Batch(((images - means) / stds).contiguous(), chosen.labels, *ends_of(mean, std))


def draw(
    folder: Path, model: nn.Module, stages: Mapping[str, nn.Module], batch: Batch, results: Results
) -> list[Path]:
    """Draw the results and the model's maps as PNG files; returns the written files."""
    # matplotlib is slow to import: only if there is something to draw.
    from cnnpool.explain.maps import field_figure, routing_figure, shift_figure, winner_figure, winner_panels

    figures, measured = {}, results.measured
    if accuracy := measured.get("invariance", {}).get("accuracy_over_shifts"):
        label = f"accuracy, n={measured['invariance']['map_samples']}"
        figures["accuracy_over_shifts"] = shift_figure({"accuracy of shifted images": accuracy}, label)
    if gradient := measured.get("gradient"):
        images = batch.images[:SHOWN]
        taps = stage_gradients(model, stages, images, batch.labels[:SHOWN])
        gradients = {stage: tap.gradient for stage, tap in taps.items()}
        figures["gradient_routing"] = routing_figure(images, gradients)
        if winners := winner_panels(gradient):
            figures["winners"] = winner_figure(winners)
    if maps := _maps(measured, "heat_map"):
        figures["heat_map"] = shift_figure(maps, "cosine distance of features", limits=(0, 0.5))
    if maps := _maps(measured, "receptive_field"):
        figures["receptive_field"] = field_figure(maps, "mean |gradient|, largest 1")
    written, mark = [], (results.examined or {}).get("untrained")
    for name, figure in figures.items():
        if mark:
            figure.supxlabel(f"{mark} weights", fontsize="small")
        written.append(folder / f"{name}.png")
        figure.savefig(written[-1], dpi=110)
    return written


def _maps(measured: Mapping[str, Any], section: str) -> dict[str, Any]:
    return {stage: one["map"] for stage, one in measured.get(section, {}).get("stages", {}).items()}
