"""Draw the pictures of the pages on concepts, from examples of ``cnnpool explain`` and one of shifts.

usage: python scripts/docs/concepts.py
"""

from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

from cnnpool.explain.example import Example, example
from cnnpool.explain.picture import figure, grid
from cnnpool.pool import build

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"
SHIFTED = ("max", "avg", "blur")
SHIFTS = range(5)


def examples() -> dict[str, Example]:
    """The worked examples, by the name of the picture."""
    # Columns of 9 and 0 in turn, and the same one pixel to the right.
    columns = 9.0 * torch.eye(2, dtype=torch.float64).repeat(1, 2)
    stripes = columns[:, None, None].expand(2, 1, 4, 4)
    return {
        "subsampled_stripes": example("subsample", stripes),
        "blurred_stripes": example("blur", stripes),
    }


def shifted(name: str) -> list[tuple[Tensor, Tensor]]:
    """The output of the operator, (1, 8), and of two in a row, (1, 4), for a row of 16 pixels at each shift.

    The row is two dots on zeros, shifted to the right around the edge; the operators look along it alone.
    """
    row = torch.zeros(1, 1, 1, 16, dtype=torch.float64)
    row[..., [2, 8]] = torch.tensor([4.0, 8.0], dtype=torch.float64)
    options = (
        {"filter_size": (1, 3), "padding_mode": "circular"} if name == "blur" else {"kernel_size": (1, 2)}
    )
    pool = build(name, 1, stride=(1, 2), **options)
    once = [pool(row.roll(shift, dims=3)) for shift in SHIFTS]
    return [(one[0, 0], pool(one)[0, 0]) for one in once]


def shifts() -> Figure:
    """Shifts 0 to 4 by the outputs of three operators, once and twice."""
    drawn = Figure(figsize=(11, 4.6), layout="constrained")
    axes = drawn.subplots(2, len(SHIFTED))
    for column, name in enumerate(SHIFTED):
        for level, words in enumerate(("once", "twice")):
            rows = torch.cat([found[level] for found in shifted(name)])
            panel = axes[level, column]
            grid(panel, rows, f"{name}, {words}", "Greens", 0, 8)
            panel.set(yticks=SHIFTS, yticklabels=[f"shift {shift}" for shift in SHIFTS], aspect="auto")
    return drawn


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, shown in examples().items():
        figure(shown).savefig(FOLDER / f"{name}.png", dpi=100)
        print(f"wrote {FOLDER / name}.png")
    shifts().savefig(FOLDER / "shifts.png", dpi=100)
