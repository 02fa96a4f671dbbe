"""The pictures of an examination, as PNG files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from cnnpool.explain.maps import field_figure, routing_figure, shift_figure, winner_figure, winner_panels
from cnnpool.probe import Batch
from cnnpool.probe.gradient_taps import stage_gradients
from cnnpool.run_folder.results import Results

SHOWN = 6


def draw(
    folder: Path, model: nn.Module, stages: Mapping[str, nn.Module], batch: Batch, results: Results
) -> list[Path]:
    """Write what the results and the model have to show; the files written."""
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
    if "sensitivity" in measured:
        label = "distance of logits, other image = 1"
        maps = {"translation sensitivity": measured["sensitivity"]["map"]}
        figures["sensitivity"] = shift_figure(maps, label, limits=(0, 1.5))
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
