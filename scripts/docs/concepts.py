"""Draw the pictures of the pages on concepts, with the examples that ``cnnpool explain`` works out.

usage: python scripts/docs/concepts.py
"""

from pathlib import Path

import torch
from torch import Tensor

from cnnpool.explain.example import Example, example
from cnnpool.explain.picture import figure

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"


def stripes(moved: int) -> Tensor:
    """Columns of 9 and 0 in turn, (4, 4), ``moved`` pixels to the right."""
    return 9.0 * (torch.arange(4) % 2 == moved % 2).double().expand(4, 4)


def dot(column: int) -> Tensor:
    """A single 9 in the second row, (4, 4)."""
    image = torch.zeros(4, 4, dtype=torch.float64)
    image[1, column] = 9
    return image


def examples() -> dict[str, Example]:
    """The worked examples, by the name of the picture."""
    dots = torch.stack([dot(0), dot(1), dot(2)]).unsqueeze(1)
    moved = torch.stack([stripes(0), stripes(1)]).unsqueeze(1)
    return {
        "max_of_moved_dots": example("max", dots),
        "subsampled_stripes": example("subsample", moved),
        "blurred_stripes": example("blur", moved),
    }


def main() -> None:
    """Write the pictures to ``docs/pictures``."""
    FOLDER.mkdir(exist_ok=True)
    for name, shown in examples().items():
        path = FOLDER / f"{name}.png"
        figure(shown).savefig(path, dpi=100)
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
