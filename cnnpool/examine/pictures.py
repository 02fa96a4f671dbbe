"""The pictures of an examination, as PNG files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from cnnpool.explain.maps import field_figure, routing_figure, shift_figure, winner_figure
from cnnpool.probe import Batch
from cnnpool.probe.accuracy import accuracy_map
from cnnpool.probe.taps import stage_gradients

RADIUS_PX = 3
MAPPED = 64
SHOWN = 6


def draw(
    folder: Path, model: nn.Module, stages: Mapping[str, nn.Module], batch: Batch, results: Mapping[str, Any]
) -> list[Path]:
    """Write what the results and the model have to show; the files written."""
    figures = {}
    images, labels = batch.images[:MAPPED], batch.labels[:MAPPED]
    if "invariance" in results:
        maps = {"accuracy of shifted images": accuracy_map(model, images, labels, RADIUS_PX).tolist()}
        figures["accuracy_over_shifts"] = shift_figure(maps, f"accuracy, n={len(images)}")
    if gradient := results.get("gradient"):
        taps = stage_gradients(model, stages, images[:SHOWN], labels[:SHOWN])
        figures["gradient_routing"] = routing_figure(
            images[:SHOWN], {stage: tap.gradient for stage, tap in taps.items()}
        )
        winners = {stage: one["winners"] for stage, one in gradient.items() if "winners" in one}
        if winners:
            figures["winners"] = winner_figure(winners)
    if maps := _maps(results, "heat_map"):
        figures["heat_map"] = shift_figure(maps, "cosine distance of features", limits=(0, 0.5))
    if "sensitivity" in results:
        label = "distance of logits, other image = 1"
        maps = {"translation sensitivity": results["sensitivity"]["map"]}
        figures["sensitivity"] = shift_figure(maps, label, limits=(0, 1.5))
    if maps := _maps(results, "receptive_field"):
        figures["receptive_field"] = field_figure(maps, "mean |gradient|, largest 1")
    written = []
    for name, figure in figures.items():
        written.append(folder / f"{name}.png")
        figure.savefig(written[-1], dpi=110)
    return written


def _maps(results: Mapping[str, Any], section: str) -> dict[str, Any]:
    return {stage: one["map"] for stage, one in results.get(section, {}).get("stages", {}).items()}
