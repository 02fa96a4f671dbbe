"""Draw the pictures of the pages on concepts, with the examples that ``cnnpool explain`` works out.

usage: python scripts/docs/concepts.py
"""

from pathlib import Path

import torch

from cnnpool.explain.example import Example, example
from cnnpool.explain.picture import figure

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"


def examples() -> dict[str, Example]:
    """The worked examples, by the name of the picture."""
    # A single 9 in the second row of each image, a column further in the next.
    dots = torch.zeros(3, 1, 4, 4, dtype=torch.float64)
    dots[range(3), 0, 1, range(3)] = 9
    # Columns of 9 and 0 in turn, and the same one pixel to the right.
    columns = 9.0 * torch.eye(2, dtype=torch.float64).repeat(1, 2)
    stripes = columns[:, None, None].expand(2, 1, 4, 4)
    return {
        "max_of_moved_dots": example("max", dots),
        "subsampled_stripes": example("subsample", stripes),
        "blurred_stripes": example("blur", stripes),
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, shown in examples().items():
        figure(shown).savefig(FOLDER / f"{name}.png", dpi=100)
        print(f"wrote {FOLDER / name}.png")
