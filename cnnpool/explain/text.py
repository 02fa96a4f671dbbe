"""The worked example as text."""

from torch import Tensor

from cnnpool.explain.example import Example


def text(example: Example) -> str:
    """Windows, winners, upstream gradient, input gradient per sample, batch mean."""
    lines = [f"== {example.title} ==", f"y = {example.formula}", ""]
    for name, weight in example.weights.items():
        lines += [f"{name} = {[round(v, 3) for v in weight.flatten().tolist()]}", ""]
    for n in range(len(example.images)):
        lines += [f"-- sample {n + 1} --", *_forward(example, n), "", *_backward(example, n), ""]
    return "\n".join(lines + _batch(example)) + "\n"


def _forward(example: Example, n: int) -> list[str]:
    grids = side_by_side(["x", "y"], [example.images[n, 0], example.outputs[n, 0]])
    lines = [*grids, "", "each output and the inputs it depends on (dy/dx in brackets):"]
    width = example.outputs.shape[-1]
    for index, derivative in enumerate(example.derivatives[n]):
        row, column = divmod(index, width)
        sources = [
            f"x[{i},{j}]={number(example.images[n, 0, i, j])} ({number(derivative[i, j])})"
            for i, j in derivative.nonzero().tolist()
        ]
        value = number(example.outputs[n, 0, row, column])
        lines.append(f"  y[{row},{column}] = {value}  from  {', '.join(sources) or 'no input'}")
    return lines


def _backward(example: Example, n: int) -> list[str]:
    gradient = example.gradients[n, 0]
    silent = int((gradient == 0).sum())
    return [
        "backward: dL/dx = sum over outputs of dL/dy * dy/dx",
        *side_by_side(["dL/dy (given)", "dL/dx"], [example.upstream[n, 0], gradient]),
        f"{silent} of {gradient.numel()} inputs get no gradient",
    ]


def _batch(example: Example) -> list[str]:
    first, second = example.weight_gradients.tolist()
    covered = int((example.gradients != 0).any(0).sum())
    size = example.images[0].numel()
    return [
        "-- the batch --",
        "Each sample routes its own gradient; nothing is averaged inside the operator. The mean is taken",
        "where samples meet: at a weight they share. With x = w * image and w = 1,",
        "dL/dw = sum of dL/dx * image:",
        f"  sample 1: {number(first)}   sample 2: {number(second)}   mean: {number((first + second) / 2)}",
        f"Positions that get gradient from at least one sample: {covered} of {size}",
    ]


def side_by_side(titles: list[str], grids: list[Tensor]) -> list[str]:
    """Matrices next to each other, each under its title."""
    blocks = []
    for title, grid in zip(titles, grids, strict=True):
        cells = [[number(v) for v in row] for row in grid]
        width = max(len(cell) for row in cells for cell in row)
        rows = [" ".join(cell.rjust(width) for cell in row) for row in cells]
        wide = max(len(title), len(rows[0]))
        blocks.append([line.ljust(wide) for line in (title, *rows)])
    height = max(map(len, blocks))
    for block in blocks:
        block += [" " * len(block[0])] * (height - len(block))
    return ["   ".join(parts).rstrip() for parts in zip(*blocks, strict=True)]


def number(value: float | Tensor) -> str:
    """Short: 4, 0.25, -1.333."""
    return f"{round(float(value), 3) + 0.0:g}"
