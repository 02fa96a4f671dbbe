"""The pictures that TensorBoard shows of a finished run, drawn with fixed colour limits."""

from typing import Any

import matplotlib
from torch import Tensor
from torch.utils.tensorboard import SummaryWriter

from cnnpool.explain.example import examples
from cnnpool.explain.picture import figure
from cnnpool.model import Cnn
from cnnpool.probe import Batch
from cnnpool.probe.accuracy import accuracy_map
from cnnpool.probe.taps import Tap, stage_gradients

matplotlib.use("Agg")
from matplotlib import pyplot

RADIUS_PX = 4
IMAGES = 8


def draw(board: SummaryWriter, model: Cnn, batch: Batch, results: dict[str, Any]) -> None:
    """Shift map, routing maps and the operator's worked example, into the images tab."""
    images, labels = batch[:2]
    step = results["steps"]
    accuracy = accuracy_map(model, images[:256], labels[:256], RADIUS_PX)
    board.add_figure("maps/accuracy_over_shifts", shift_figure(accuracy), step)
    taps = stage_gradients(model, model.stages, images[:IMAGES], labels[:IMAGES])
    board.add_figure("maps/gradient_routing", routing_figure(images[:IMAGES], taps), step)
    for name in (results["pool"]["name"], results["readout"]["name"]):
        board.add_figure(f"explain/{name}", figure(examples(name)[0]), step)


def shift_figure(accuracy: Tensor) -> pyplot.Figure:
    """Accuracy (2r+1, 2r+1) for every shift, colours from 0 to 1."""
    radius = len(accuracy) // 2
    figure, axes = pyplot.subplots(figsize=(4.6, 4), layout="constrained")
    extent = (-radius - 0.5, radius + 0.5, radius + 0.5, -radius - 0.5)
    picture = axes.imshow(accuracy.numpy(), vmin=0, vmax=1, cmap="viridis", extent=extent)
    axes.set(title="test accuracy of shifted images", xlabel="shift right, px", ylabel="shift down, px")
    figure.colorbar(picture, label="accuracy")
    return figure


def routing_figure(images: Tensor, taps: dict[str, Tap]) -> pyplot.Figure:
    """Per image: share of a position's channels that get gradient, at each stage's input, 0 to 1."""
    rows = 1 + len(taps)
    figure, axes = pyplot.subplots(
        rows, len(images), figsize=(1.3 * len(images) + 1.2, 1.45 * rows), layout="constrained", squeeze=False
    )
    for column, image in enumerate(images):
        low, high = image.min(), image.max()
        axes[0, column].imshow(
            ((image - low) / (high - low).clamp_min(1e-9)).permute(1, 2, 0).numpy(), cmap="gray"
        )
        for row, tap in enumerate(taps.values(), start=1):
            share = (tap.gradient[column] != 0).double().mean(0).cpu()
            picture = axes[row, column].imshow(share.numpy(), vmin=0, vmax=1, cmap="magma")
    for label, axis in zip(("image", *taps), axes[:, 0], strict=True):
        axis.set_ylabel(label)
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
    figure.colorbar(picture, ax=axes[1:, :], label="channels with gradient")
    return figure
