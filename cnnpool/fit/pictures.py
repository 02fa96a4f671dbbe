"""Pictures of a finished run: for loggers, with fixed colour limits, and for the report."""

from collections.abc import Sequence

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn import functional as F

from cnnpool.explain.example import example
from cnnpool.explain.maps import field_figure, routing_figure, shift_figure, winner_figure, winner_panels
from cnnpool.explain.picture import figure
from cnnpool.fit.loggers import Guarded
from cnnpool.fit.record import Record
from cnnpool.model import Cnn
from cnnpool.probe import Batch
from cnnpool.probe.gradient_taps import stage_gradients
from cnnpool.probe.receptive_field import receptive_fields
from cnnpool.probe.shift import at_once
from cnnpool.registry import KEEP
from cnnpool.run_folder.results import Results
from cnnpool.run_folder.routing import Routing

MAPPED = 128
SHOWN = 8
ROUTED = 4
LARGEST = 128  # Longest side of a picture in the report, in pixels; larger pictures are no clearer


def draw(loggers: Sequence[Record | Guarded], model: Cnn, batch: Batch, results: Results) -> None:
    """Shift, routing, winner and receptive-field maps, worked examples, histograms of gradients."""
    images, labels = batch.images, batch.labels
    step, measured = results.steps, results.measured

    def show(tag: str, picture: Figure, step: int | None = step) -> None:
        for logger in loggers:
            logger.figure(tag, picture, step)

    if accuracy := measured.get("invariance", {}).get("accuracy_over_shifts"):
        maps = {"test accuracy of shifted images": accuracy}
        show("view/shifted_accuracy", shift_figure(maps, "accuracy"), step)
    taps = stage_gradients(model, model.stages, images[:SHOWN], labels[:SHOWN])
    gradients = {stage: tap.gradient for stage, tap in taps.items()}
    show("view/gradient_routing", routing_figure(images[:SHOWN], gradients), step)
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
        show("view/receptive_field", field_figure(fields, "mean |gradient|, largest 1"), step)
    if winners := winner_panels(measured.get("gradient", {})):
        show("view/winners", winner_figure(winners), step)
    for name in (results.pool["name"], results.readout["name"]):
        if name == KEEP:
            continue
        show(f"view/worked_example/{name}", figure(example(name)), step)


def routing_of(model: Cnn, batch: Batch) -> Routing:
    """The first images of ``batch``, each scaled to its range, and the shares of channels with gradient."""
    images, labels, *_ = batch.first(ROUTED)
    taps = stage_gradients(model, model.stages, images, labels)
    shares = {stage: (tap.gradient != 0).double().mean(1, keepdim=True) for stage, tap in taps.items()}
    low, high = images.amin((1, 2, 3), keepdim=True), images.amax((1, 2, 3), keepdim=True)
    grey = images if images.shape[1] == 3 else images.mean(1, keepdim=True)
    shown = _reduced(255 * (grey - low) / (high - low).clamp_min(1e-9)).round().to(torch.uint8)
    return Routing(
        shown.permute(0, 2, 3, 1).cpu().numpy(),
        {stage: _reduced(share).squeeze(1).cpu().numpy() for stage, share in shares.items()},
    )


def _reduced(maps: Tensor) -> Tensor:
    longest = max(maps.shape[-2:])
    if longest <= LARGEST:
        return maps
    size = [max(1, side * LARGEST // longest) for side in maps.shape[-2:]]
    return F.interpolate(maps, size, mode="area")
