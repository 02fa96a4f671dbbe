"""The worked example as text."""

import textwrap

from torch import Tensor

from cnnpool.explain.example import BATCH_NORM, Example, matrix, number

WIDTH = 100
"""Most characters per line of grids."""
FEW = 4
"""Most inputs of an output that fit on its line; for more the derivatives are shown as a grid."""

ITSELF = "The operator divides nothing by N: it routes the gradient of each sample by itself."


def text(example: Example) -> str:
    """Formula and gradient in a sentence, windows, winners, input gradient per sample, batch mean."""
    lines = [f"== {example.title} ==", f"y = {example.formula}"]
    lines += [f"{fact}: {stated}" for fact, stated in example.facts.items()]
    for name, weight in example.weights.items():
        row = f"{name} = [{', '.join(map(number, weight.flatten()))}]"
        lines += textwrap.wrap(row, WIDTH, subsequent_indent="  ")
    lines += [line for note in example.notes for line in ("", *textwrap.wrap(note, WIDTH))]
    lines.append("")
    several = len(example.images) > 1
    for n in range(len(example.images)):
        lines += [f"-- sample {n + 1} --"] * several
        lines += [*_forward(example, n), "", *_backward(example, n), ""]
    return "\n".join(lines + (_batch(example) if several else [])).rstrip() + "\n"


def _forward(example: Example, n: int) -> list[str]:
    titles, grids = ["x", "y"], [example.images[n, 0], example.outputs[n, 0]]
    if example.evaluated is not None:
        titles, grids = ["x", "y (this draw)", "y (evaluation)"], [*grids, example.evaluated[n, 0]]
    lines = side_by_side(titles, grids)
    if example.phases:
        lines += ["", "the phases:", *(f"  {one}" for one in example.phases[n])]
    if example.derivatives[n].flatten(1).count_nonzero(1).max() > FEW:
        return [*lines, "", "dy/dx of each output:", *_grids(example, n)]
    lines += ["", "each output and the inputs it depends on (dy/dx in brackets):"]
    return lines + [_output(example, n, index) for index in range(example.outputs[n].numel())]


def _grids(example: Example, n: int) -> list[str]:
    width = example.outputs.shape[-1]
    names = ["dy[{},{}]/dx".format(*divmod(k, width)) for k in range(len(example.derivatives[n]))]
    blocks = [side_by_side([name], [grid]) for name, grid in zip(names, example.derivatives[n], strict=True)]
    widest = max(len(line) for block in blocks for line in block)
    together = max(1, (WIDTH + 3) // (widest + 3))
    lines: list[str] = []
    for start in range(0, len(blocks), together):
        last = slice(start, start + together)
        lines += side_by_side(names[last], list(example.derivatives[n][last]))
    ties = [(name, example.off(n, index) or example.tie(n, index)) for index, name in enumerate(names)]
    return lines + [f"{name[1:-3]}: {tie}" for name, tie in ties if tie]


def _output(example: Example, n: int, index: int) -> str:
    image, derivative = example.images[n, 0], example.derivatives[n, index]
    row, column = divmod(index, example.outputs.shape[-1])
    sources = [
        f"x[{i},{j}]={number(image[i, j])} ({number(derivative[i, j])})"
        for i, j in derivative.nonzero().tolist()
    ]
    value = number(example.outputs[n, 0, row, column])
    message = [
        f"  y[{row},{column}] = {value}  from  {', '.join(sources) or example.off(n, index) or 'no input'}"
    ]
    if example.chooses(n, index):
        window = example.windows[n, index]
        rows = [line[seen] for line, seen in zip(image, window, strict=True) if seen.any()]
        message.append(f"of window [{matrix(rows)}]")
    if tie := example.tie(n, index):
        message.append(tie)
    return "  ".join(message)


def _backward(example: Example, n: int) -> list[str]:
    gradient, several = example.gradients[n, 0], len(example.images) > 1
    loss = f"L_{n + 1}" if several else "L"
    own = ", the loss of this sample alone" if several else ""
    return [
        f"backward: d{loss}/dx = sum over outputs of d{loss}/dy * dy/dx{own}",
        *side_by_side([f"d{loss}/dy (given)", f"d{loss}/dx"], [example.upstream[n, 0], gradient]),
        f"{int((gradient == 0).sum())} of {gradient.numel()} inputs get no gradient",
        *[f"given: 1, 2, ... can be followed through; in training d{loss}/dy comes from the layer above"]
        * (n == 0),
    ]


def _batch(example: Example) -> list[str]:
    count, covered = len(example.images), int((example.gradients != 0).any(0).sum())
    losses = " + ".join(f"L_{n + 1}" for n in range(count))
    lines = [
        "-- the batch: where 1/N enters --",
        f"The loss of a batch is the mean over its samples, L = ({losses}) / {count} (reduction='mean').",
        f"So 1/N = 1/{count} enters once, at the loss, and is in every gradient that comes back from it:",
    ]
    for n in range(count):
        titles = [f"dL/dy = dL_{n + 1}/dy / {count}", f"dL/dx = dL_{n + 1}/dx / {count}"]
        grids = [example.upstream[n, 0] / count, example.gradients[n, 0] / count]
        lines += [f"sample {n + 1}", *(f"  {line}" for line in side_by_side(titles, grids))]
    per_sample = [number(value) for value in example.weight_gradients]
    total = float(example.weight_gradients.sum())
    shares = "   ".join(f"sample {n}: {value} / {count}" for n, value in enumerate(per_sample, 1))
    return [
        *lines,
        *[ITSELF] * (BATCH_NORM not in example.notes),
        "Samples are added up where they share a weight.",
        "With x = w * image and w = 1, dL/dw = sum of dL/dx * image:",
        f"  {shares}   sum: {number(total / count)}, the mean over the samples",
        f"With reduction='sum' there is no 1/N, and dL/dw = {number(total)}.",
        *_own(example),
        f"Positions that get gradient from at least one sample: {covered} of {example.images[0].numel()}",
    ]


def _own(example: Example) -> list[str]:
    """The gradients of the operator's own weights: of each sample, and their mean."""
    lines = ["The operator's own weights are shared by the samples, so their gradients meet here:"]
    for name, each in example.own_gradients.items():
        grids = [*each, each.mean(0)]
        titles = [f"dL_{n}/d{name}" for n in range(1, len(each) + 1)] + [f"dL/d{name}, their mean"]
        flat = [grid.reshape(-1, grid.shape[-1]) for grid in grids]
        lines += [f"  {line}" for line in side_by_side(titles, flat)]
    return lines if example.own_gradients else []


def side_by_side(titles: list[str], grids: list[Tensor]) -> list[str]:
    """Matrices side by side, each under its title."""
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
