"""The worked example as text."""

from torch import Tensor

from cnnpool.explain.example import SEED, Example, Phase, Tie

WIDTH = 100
"""Most characters per line of grids."""
FEW = 4
"""Most inputs of an output that fit on its line; for more the derivatives are shown as a grid."""


def text(example: Example) -> str:
    """Formula and gradient in a sentence, windows, winners, input gradient per sample, batch mean."""
    lines = [f"== {example.title} ==", f"y = {example.formula}"]
    lines += [f"{fact}: {stated}" for fact, stated in example.facts.items()]
    for name, weight in example.weights.items():
        lines += [f"{name} = [{', '.join(map(number, weight.flatten()))}]"]
    if example.evaluated is not None:
        lines += ["", drawn()]
    lines.append("")
    several = len(example.images) > 1
    for n in range(len(example.images)):
        lines += [f"-- sample {n + 1} --"] * several
        lines += [*_forward(example, n), "", *_backward(example, n), ""]
    return "\n".join(lines + (_batch(example) if several else [])).rstrip() + "\n"


def drawn() -> str:
    """Note that the output is one random draw."""
    return f"One draw of training mode, seed {SEED}; another seed gives another y, evaluation draws nothing."


def tied(tie: Tie) -> str:
    """The equal inputs, and those of them that receive the gradient."""
    winners = f"rule {tie.rule}: {_places(tie.winners)}"
    return f"tie: {number(tie.value)} at {_places(tie.equals)}; {winners}"


def phase(one: Phase, score: str) -> str:
    """x[1::2,0::2]: ||x_k||_2 = 4.69, kept."""
    (i, j), (down, across) = one.start, one.stride
    parts = [f"{score} = {number(one.score)}"] if one.score is not None else []
    if one.weight == 1:
        parts.append("kept")
    elif one.weight:
        parts.append(f"weight {number(one.weight)}")
    return f"x[{i}::{down},{j}::{across}]: {', '.join(parts) or 'weight 0'}"


def _forward(example: Example, n: int) -> list[str]:
    titles, grids = ["x", "y"], [example.images[n, 0], example.outputs[n, 0]]
    if example.evaluated is not None:
        titles, grids = ["x", "y (this draw)", "y (evaluation)"], [*grids, example.evaluated[n, 0]]
    lines = side_by_side(titles, grids)
    if example.phases:
        lines += ["", "the phases x_k:", *(f"  {phase(one, example.score)}" for one in example.phases[n])]
    if example.derivatives[n].flatten(1).count_nonzero(1).max() > FEW:
        return [*lines, "", "dy/dx of each output:", *_grids(example, n)]
    lines += ["", "each output and the inputs it depends on (dy/dx in brackets):"]
    return lines + [_output(example, n, index) for index in range(example.outputs[n].numel())]


def _grids(example: Example, n: int) -> list[str]:
    """The derivatives of every output as a grid under its name, as many side by side as fit."""
    width = example.outputs.shape[-1]
    names = ["dy[{},{}]/dx".format(*divmod(k, width)) for k in range(len(example.derivatives[n]))]
    blocks = [side_by_side([name], [grid]) for name, grid in zip(names, example.derivatives[n], strict=True)]
    widest = max(len(line) for block in blocks for line in block)
    together = max(1, (WIDTH + 3) // (widest + 3))
    lines: list[str] = []
    for start in range(0, len(blocks), together):
        last = slice(start, start + together)
        lines += side_by_side(names[last], list(example.derivatives[n][last]))
    ties = [(name, example.tie(n, index)) for index, name in enumerate(names)]
    return lines + [f"{name[1:-3]}: {tied(tie)}" for name, tie in ties if tie]


def _output(example: Example, n: int, index: int) -> str:
    image, derivative = example.images[n, 0], example.derivatives[n, index]
    row, column = divmod(index, example.outputs.shape[-1])
    sources = [
        f"x[{i},{j}]={number(image[i, j])} ({number(derivative[i, j])})"
        for i, j in derivative.nonzero().tolist()
    ]
    value = number(example.outputs[n, 0, row, column])
    message = [f"  y[{row},{column}] = {value}  from  {', '.join(sources) or 'no input'}"]
    if example.chooses(n, index):
        window = example.windows[n, index]
        rows = [
            " ".join(map(number, line[seen])) for line, seen in zip(image, window, strict=True) if seen.any()
        ]
        message.append(f"of window [{'; '.join(rows)}]")
    if tie := example.tie(n, index):
        message.append(tied(tie))
    return "  ".join(message)


def _places(places: list[tuple[int, int]]) -> str:
    return " and ".join(f"({i},{j})" for i, j in places)


def _backward(example: Example, n: int) -> list[str]:
    gradient, several = example.gradients[n, 0], len(example.images) > 1
    loss = f"L_{n + 1}" if several else "L"
    own = ", the loss of this sample alone" if several else ""
    return [
        f"backward: d{loss}/dx = sum over outputs of d{loss}/dy * dy/dx{own}",
        *side_by_side([f"d{loss}/dy (given)", f"d{loss}/dx"], [example.upstream[n, 0], gradient]),
        f"{int((gradient == 0).sum())} of {gradient.numel()} inputs get no gradient",
        f"given: 1, 2, ... can be followed through; in training d{loss}/dy comes from the layer above",
    ]


def _batch(example: Example) -> list[str]:
    covered = int((example.gradients != 0).any(0).sum())
    return [
        "-- the batch: where 1/N enters --",
        *_mean_loss(example),
        f"Positions that get gradient from at least one sample: {covered} of {example.images[0].numel()}",
    ]


def _mean_loss(example: Example) -> list[str]:
    count = len(example.images)
    losses = " + ".join(f"L_{n + 1}" for n in range(count))
    lines = [
        f"The loss of a batch is the mean over its samples, L = ({losses}) / {count} (reduction='mean').",
        f"So 1/N = 1/{count} enters once, at the loss, and is in every gradient that comes back from it:",
    ]
    for n in range(count):
        titles = [f"dL/dy = dL_{n + 1}/dy / {count}", f"dL/dx = dL_{n + 1}/dx / {count}"]
        grids = [example.batch_upstream[n, 0], example.batch_gradients[n, 0]]
        lines += [f"sample {n + 1}", *(f"  {line}" for line in side_by_side(titles, grids))]
    per_sample = [number(value) for value in example.weight_gradients]
    total = float(example.weight_gradients.sum())
    shares = "   ".join(f"sample {n}: {value} / {count}" for n, value in enumerate(per_sample, 1))
    return [
        *lines,
        "The operator divides nothing by N: it routes the gradient of each sample by itself. Samples are",
        "added up where they share a weight. With x = w * image and w = 1, dL/dw = sum of dL/dx * image:",
        f"  {shares}   sum: {number(total / count)}, the mean over the samples",
        f"With reduction='sum' there is no 1/N, and dL/dw = {number(total)}.",
    ]


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


def number(value: float | Tensor) -> str:
    """Four digits: 4, 0.0625, -1.333."""
    return f"{round(float(value), 9) + 0.0:.4g}"
