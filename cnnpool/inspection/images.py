"""Test images in the form that the examined model takes, and pictures of the measurements."""

import os
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
from cnnpool.data.draws import stratified
from cnnpool.inspection.subject import Subject
from cnnpool.probe import Batch
from cnnpool.probe.gradient_taps import stage_gradients
from cnnpool.registry import lookup, options_of
from cnnpool.run_folder.results import Results

SAMPLES = 2048
OPTIONS = {"data.size=": "--size ", "set data.download=true": "give --download", "data.root=": "--root "}
"""Settings in messages about data -> the corresponding arguments of ``cnnpool probe``."""
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
    if root is not None or not trained:
        options["root"] = root or os.environ.get("CNNPOOL_DATA", "data")
    options |= {"download": download, **settings}
    wanted = size or subject.size
    if wanted is not None and options.get("size") is None:
        known = options_of(lookup(data.DATASETS, "datasets", options["name"]))
        # A data set with a default size keeps it unless another is requested.
        if "size" in known and (size or known["size"].default is None):
            options["size"] = wanted
    try:
        return data.build(
            **options, samples=samples, seed=subject.trained.seed if subject.trained and same else 0
        )
    except ValueError as error:
        message = str(error)
        for key, option in OPTIONS.items():
            message = message.replace(key, option)
        raise ValueError(message) from error


def batch(
    dataset: Dataset, model: nn.Module, subject: Subject, *, samples: int | None, size: int | None
) -> Batch:
    """Test images for ``model``, stratified and shuffled; grey ones are repeated for several channels."""
    split = dataset.test
    chosen = split.take(stratified(split.labels, seed=0)[: min(samples or SAMPLES, SAMPLES)])
    images = centre(chosen.images, dataset.size).float() / 255
    convolutions = (module for module in model.modules() if isinstance(module, nn.Conv2d))
    wanted = next((one.in_channels for one in convolutions), images.shape[1])
    mean, std = (
        torch.tensor(own or theirs)
        for own, theirs in ((subject.mean, dataset.mean), (subject.std, dataset.std))
    )
    if wanted != images.shape[1]:
        if images.shape[1] != 1:
            raise ValueError(
                f"the model takes {wanted} channels, images of {dataset.name} have {images.shape[1]}"
            )
        images = images.expand(-1, wanted, -1, -1)
    if size is not None:
        images = F.interpolate(images, (size, size), mode="bilinear", antialias=True).clamp(0, 1)
    mean, std = (v.expand(wanted) if len(v) == 1 else v for v in (mean, std))
    normalised = ((images - mean[:, None, None]) / std[:, None, None]).contiguous()
    return Batch(normalised, chosen.labels, -mean / std, (1 - mean) / std)


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
