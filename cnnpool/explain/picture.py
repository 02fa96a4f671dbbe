"""The worked example as a picture."""

from typing import TYPE_CHECKING

from torch import Tensor

from cnnpool.explain.example import Example
from cnnpool.explain.text import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def figure(example: Example) -> "Figure":
    """A row per sample: input, output, upstream and input gradient; and what the batch makes of them."""
    from matplotlib.figure import Figure

    samples = len(example.images)
    picture = Figure(figsize=(10.5, 2.9 * samples + 1.1), layout="constrained")
    axes = picture.subplots(samples, 4, squeeze=False)
    peak = float(max(example.gradients.abs().max(), example.upstream.max()))
    for n in range(samples):
        grid(axes[n, 0], example.images[n, 0], f"sample {n + 1}: input x", "Greens", 0, 8)
        grid(axes[n, 1], example.outputs[n, 0], "output y", "Greens", 0, 8)
        grid(axes[n, 2], example.upstream[n, 0], "upstream gradient dL/dy", "RdBu_r", -peak, peak)
        grid(axes[n, 3], example.gradients[n, 0], "input gradient dL/dx", "RdBu_r", -peak, peak)
    first, second = example.weight_gradients.tolist()
    covered = int((example.gradients != 0).any(0).sum())
    picture.suptitle(f"{example.title}:  y = {example.formula}")
    picture.supxlabel(
        "Each sample routes its own gradient. The mean is taken at a weight that samples share: "
        f"x = w * image gives dL/dw = {number(first)} and {number(second)}, batch mean "
        f"{number((first + second) / 2)}.\n{covered} of {example.images[0].numel()} positions get gradient "
        "from at least one sample.",
        fontsize="small",
    )
    return picture


def grid(axes: "Axes", values: Tensor, title: str, colours: str, low: float, high: float) -> None:
    """A matrix with its numbers written in the cells."""
    image = axes.imshow(values.numpy(), cmap=colours, vmin=low, vmax=high)
    for i, row in enumerate(values.tolist()):
        for j, value in enumerate(row):
            red, green, blue, _ = image.cmap(image.norm(value))
            dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
            colour = "white" if dark else "black" if value else "grey"
            axes.text(j, i, number(value), ha="center", va="center", color=colour)
    axes.set(title=title, xticks=[], yticks=[])
