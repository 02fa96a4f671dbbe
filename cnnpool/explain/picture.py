"""The worked example as a picture."""

import textwrap
from itertools import groupby, product
from typing import TYPE_CHECKING, Any

from torch import Tensor

from cnnpool.explain.example import Example, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = "tab10"


def figure(example: Example) -> "Figure":
    """One row per sample: input, output, upstream and input gradient; then the means over the batch."""
    from matplotlib.figure import Figure

    samples, foot = len(example.images), _foot(example)
    picture = Figure(figsize=(10.5, 2.7 * samples + 0.9 + 0.19 * len(foot)), layout="constrained")
    axes = picture.subplots(samples, 4, squeeze=False)
    peak = max(float(example.gradients.abs().max()), float(example.upstream.max()))
    low = min(0.0, float(example.outputs.min()))
    high = max(float(example.images.max()), float(example.outputs.max()))
    for n in range(samples):
        grid(axes[n, 0], example.images[n, 0], f"sample {n + 1}: input x", "Greens", low, high)
        grid(axes[n, 1], example.outputs[n, 0], "output y", "Greens", low, high)
        grid(axes[n, 2], example.upstream[n, 0], f"upstream gradient dL_{n + 1}/dy", "RdBu_r", -peak, peak)
        grid(axes[n, 3], example.gradients[n, 0], f"input gradient dL_{n + 1}/dx", "RdBu_r", -peak, peak)
        outline(axes[n, 0], axes[n, 1], example, n)
    picture.suptitle(textwrap.fill(f"{example.title}:  y = {example.formula}", 100))
    picture.supxlabel("\n".join(foot), fontsize="medium")
    return picture


def outline(inputs: "Axes", outputs: "Axes", example: Example, n: int) -> None:
    """Outline the window of every output in its own colour, and circle the inputs it chose."""
    from matplotlib import colormaps
    from matplotlib.patches import Circle, Rectangle

    windows, derivatives, width = example.windows[n], example.derivatives[n], example.outputs.shape[-1]
    # Inset each window that overlaps an earlier one, so that coinciding borders stay visible.
    step = 0.3 / max(len(windows), 6)
    for index, window in enumerate(windows):
        colour = colormaps[COLOURS](index % colormaps[COLOURS].N)
        line: dict[str, Any] = {"fill": False, "edgecolor": colour, "linewidth": 2}
        row, column = divmod(index, width)
        outputs.add_patch(Rectangle((column - 0.46, row - 0.46), 0.92, 0.92, **line))
        inset = 0.04 + step * int((windows[:index] & window).any((1, 2)).sum())
        for (top, down), (left, across) in product(runs(window.any(1)), runs(window.any(0))):
            corner = left - 0.5 + inset, top - 0.5 + inset
            inputs.add_patch(Rectangle(corner, across - 2 * inset, down - 2 * inset, **line))
        if example.chooses(n, index):
            for i, j in derivatives[index].nonzero().tolist():
                radius = 0.3 - step * int(derivatives[:index, i, j].count_nonzero())
                inputs.add_patch(Circle((j, i), radius, **line))


def runs(seen: Tensor) -> list[tuple[int, int]]:
    """Start and length of each run of neighbours in a window, of which one around the edge has two."""
    places = [place for place, inside in enumerate(seen.tolist()) if inside]
    groups = groupby(enumerate(places), lambda pair: pair[1] - pair[0])
    found = [[place for _, place in group] for _, group in groups]
    return [(run[0], len(run)) for run in found]


def grid(axes: "Axes", values: Tensor, title: str, colours: str, low: float, high: float) -> None:
    image = axes.imshow(values.numpy(), cmap=colours, vmin=low, vmax=high)
    longest = max(len(number(value)) for value in values.flatten())
    size = "medium" if longest < 7 else "small"
    for i, row in enumerate(values.tolist()):
        for j, value in enumerate(row):
            red, green, blue, _ = image.cmap(image.norm(value))
            dark = 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
            colour = "white" if dark else "black" if value else "grey"
            axes.text(j, i, number(value), ha="center", va="center", color=colour, size=size)
    axes.set(title=title, xticks=[], yticks=[])


def _foot(example: Example) -> list[str]:
    samples, outputs = example.derivatives.shape[:2]
    places = [(n, index) for n in range(samples) for index in range(outputs)]
    lines = ["A border on the input marks the window of the output with the same border."]
    if any(example.chooses(*place) for place in places):
        lines[0] += " A circle marks an input that gets the window's gradient."
    for n, index in places:
        if tie := example.tie(n, index):
            row, column = divmod(index, example.outputs.shape[-1])
            lines.append(f"Sample {n + 1}, y[{row},{column}]: {tie}.")
    for n, parts in enumerate(example.phases, start=1):
        lines.append(f"Sample {n}: " + "   ".join(parts))
    lines += example.notes
    covered = int((example.gradients != 0).any(0).sum())
    lines += [
        _mean(example),
        f"{covered} of {example.images[0].numel()} positions get gradient from at least one sample.",
    ]
    return [part for line in lines for part in textwrap.wrap(line, 135)]


def _mean(example: Example) -> str:
    values, count = [number(value) for value in example.weight_gradients], len(example.images)
    if count == 1:
        return f"With one sample the mean loss is its loss; x = w * image gives dL/dw = {values[0]}."
    return (
        "Each sample routes the gradient of its own loss L_n. The loss of the batch is their mean, so each "
        f"gradient is divided by {count}; at a weight that samples share they add up: x = w * image gives "
        f"dL/dw = ({' + '.join(values)}) / {count} = {number(example.weight_gradients.mean())}."
    )
