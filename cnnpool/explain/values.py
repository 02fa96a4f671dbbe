"""Images typed on a command line."""

import math

import torch
from torch import Tensor

MOST_CELLS = 16
"""On a side: more fit on no screen."""
MOST_IMAGES = 8


def batch(texts: list[str]) -> Tensor:
    """Images (N, 1, H, W), float64, from texts such as ``1 2; 3 4``: rows end in semicolons.

    Raises:
        ValueError: in one line, for what is no matrix of finite numbers, is too large, or differs in size.
    """
    if len(texts) > MOST_IMAGES:
        raise ValueError(f"--values: at most {MOST_IMAGES} images, got {len(texts)}")
    images = [_image(text) for text in texts]
    sizes = dict.fromkeys(f"{image.shape[0]}x{image.shape[1]}" for image in images)
    if len(sizes) > 1:
        raise ValueError(f"--values: the images of a batch have one size, got {' and '.join(sizes)}")
    return torch.stack(images).unsqueeze(1)


def _image(text: str) -> Tensor:
    rows = [[_number(word, text) for word in row.replace(",", " ").split()] for row in text.split(";")]
    if not rows[-1] and len(rows) > 1:
        rows.pop()
    widths = {len(row) for row in rows}
    if len(widths) > 1 or not rows[0]:
        raise ValueError(f"--values {text!r}: rows of equal length are needed, such as '1 2; 3 4'")
    if max(len(rows), *widths) > MOST_CELLS:
        raise ValueError(f"--values: at most {MOST_CELLS} rows and columns, got {len(rows)}x{len(rows[0])}")
    return torch.tensor(rows, dtype=torch.float64)


def _number(word: str, text: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"--values {text!r}: {word!r} is not a finite number")
    return value
