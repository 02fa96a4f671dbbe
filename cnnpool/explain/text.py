"""The worked example as text."""

from torch import Tensor

from cnnpool.explain.choices import Phase, Tie
from cnnpool.explain.derivatives import SEED
from cnnpool.explain.example import Example


def text(example: Example) -> str:
    """Windows, winners, upstream gradient, input gradient per sample, batch mean."""
    lines = [f"== {example.title} ==", f"y = {example.formula}"]
    lines += [f"{fact}: {stated}" for fact, stated in example.facts.items()]
    for name, weight in example.weights.items():
        lines += [f"{name} = [{', '.join(map(number, weight.flatten()))}]"]
    if example.evaluated is not None:
        lines += ["", drawn()]
    lines.append("")
    for n in range(len(example.images)):
        lines += [f"-- sample {n + 1} --", *_forward(example, n), "", *_backward(example, n), ""]
    return "\n".join(lines + _batch(example)) + "\n"


def drawn() -> str:
    """Note that the output is one random draw."""
    return f"One draw of training mode, seed {SEED}; another seed gives another y, evaluation draws nothing."


def tied(tie: Tie) -> str:
    """The inputs that are equal, and those of them that get the gradient."""
    winners = f"rule {tie.rule}: {_places(tie.winners)}"
    return f"tie: {number(tie.value)} at {_places(tie.equals)}; {winners}"


def phase(one: Phase, score: str) -> str:
    """x[1::2,0::2]: ||x_k||_2 = 4.69, kept."""
    (i, j), (down, across) = one.start, one.stride
    said = [f"{score} = {number(one.score)}"] if one.score is not None else []
    if one.weight == 1:
        said.append("kept")
    elif one.weight:
        said.append(f"weight {number(one.weight)}")
    return f"x[{i}::{down},{j}::{across}]: {', '.join(said) or 'weight 0'}"


def _forward(example: Example, n: int) -> list[str]:
    titles, grids = ["x", "y"], [example.images[n, 0], example.outputs[n, 0]]
    if example.evaluated is not None:
        titles, grids = ["x", "y (this draw)", "y (evaluation)"], [*grids, example.evaluated[n, 0]]
    lines = side_by_side(titles, grids)
    if example.phases:
        lines += ["", "the phases x_k:", *(f"  {phase(one, example.score)}" for one in example.phases[n])]
    lines += ["", "each output and the inputs it depends on (dy/dx in brackets):"]
    return lines + [_output(example, n, index) for index in range(example.outputs[n].numel())]


def _output(example: Example, n: int, index: int) -> str:
    image, derivative = example.images[n, 0], example.derivatives[n, index]
    row, column = divmod(index, example.outputs.shape[-1])
    sources = [
        f"x[{i},{j}]={number(image[i, j])} ({number(derivative[i, j])})"
        for i, j in derivative.nonzero().tolist()
    ]
    value = number(example.outputs[n, 0, row, column])
    said = [f"  y[{row},{column}] = {value}  from  {', '.join(sources) or 'no input'}"]
    if example.chooses(n, index):
        window = example.windows[n, index]
        rows = [
            " ".join(map(number, line[seen])) for line, seen in zip(image, window, strict=True) if seen.any()
        ]
        said.append(f"of window [{'; '.join(rows)}]")
    if tie := example.tie(n, index):
        said.append(tied(tie))
    return "  ".join(said)


def _places(places: list[tuple[int, int]]) -> str:
    return " and ".join(f"({i},{j})" for i, j in places)


def _backward(example: Example, n: int) -> list[str]:
    gradient, loss = example.gradients[n, 0], f"L_{n + 1}"
    silent = int((gradient == 0).sum())
    return [
        f"backward, {loss} being this sample's own loss: d{loss}/dx = sum over outputs of d{loss}/dy * dy/dx",
        *side_by_side([f"d{loss}/dy (given)", f"d{loss}/dx"], [example.upstream[n, 0], gradient]),
        f"{silent} of {gradient.numel()} inputs get no gradient",
    ]


def _batch(example: Example) -> list[str]:
    covered = int((example.gradients != 0).any(0).sum())
    return [
        "-- the batch: where 1/N enters --",
        *(_mean_loss(example) if len(example.images) > 1 else _single_loss(example)),
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


def _single_loss(example: Example) -> list[str]:
    gradient = number(example.weight_gradients[0])
    return [
        "The loss of a batch is the mean over its N samples; N = 1 here, so nothing is divided: L = L_1.",
        f"With x = w * image and w = 1, dL/dw = sum of dL/dx * image = {gradient}.",
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
    """Four digits: 4, 0.0625, -1.333."""
    return f"{round(float(value), 9) + 0.0:.4g}"
