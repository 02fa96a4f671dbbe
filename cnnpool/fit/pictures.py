"""The pictures that loggers show of a finished run, drawn with fixed colour limits.

Their tags sort behind those of the scalars that matter: test/, train/, val/.
"""

from cnnpool.explain.example import examples
from cnnpool.explain.maps import field_figure, routing_figure, shift_figure, winner_figure, winner_panels
from cnnpool.explain.picture import figure
from cnnpool.fit.metrics_writer import MetricsWriter
from cnnpool.model import Cnn
from cnnpool.probe import Batch
from cnnpool.probe.gradient_taps import stage_gradients
from cnnpool.probe.receptive_field import at_once, receptive_fields
from cnnpool.registry import KEEP
from cnnpool.run_folder.results import Results

MAPPED = 128
SHOWN = 8


def draw(writer: MetricsWriter, model: Cnn, batch: Batch, results: Results) -> None:
    """Shift, routing, winner and receptive-field maps, worked examples, histograms of gradients."""
    images, labels = batch.images, batch.labels
    step, measured = results.steps, results.measured
    if accuracy := measured.get("invariance", {}).get("accuracy_over_shifts"):
        maps = {"test accuracy of shifted images": accuracy}
        writer.figure("view/shifted_accuracy", shift_figure(maps, "accuracy"), step)
    taps = stage_gradients(model, model.stages, images[:SHOWN], labels[:SHOWN])
    gradients = {stage: tap.gradient for stage, tap in taps.items()}
    writer.figure("view/gradient_routing", routing_figure(images[:SHOWN], gradients), step)
    for stage, gradient in gradients.items():
        writer.board.add_histogram(f"gradient/at_input/{stage}", gradient, step)
    # Each stage is a backward pass of its own: hundreds of large images take minutes.
    mapped = images[: min(MAPPED, at_once(images))]
    fields = {
        stage: (field / field.max().clamp_min(1e-300)).tolist()
        for stage, field in receptive_fields(model, model.stages, mapped).items()
    }
    if fields:
        writer.figure("view/receptive_field", field_figure(fields, "mean |gradient|, largest 1"), step)
    if winners := winner_panels(measured.get("gradient", {})):
        writer.figure("view/winners", winner_figure(winners), step)
    for name in (results.pool["name"], results.readout["name"]):
        if name == KEEP:
            continue
        writer.figure(f"view/worked_example/{name}", figure(examples(name)[0]), step)
