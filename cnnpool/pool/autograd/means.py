"""The means of windows that kernels compute, by their parameters."""

from typing import Literal, NamedTuple

from cnnpool.pool.window import Window

POWER: Literal[0] = 0
FLOORED: Literal[1] = 1
SOFT: Literal[2] = 2


class Mean(NamedTuple):
    """Which mean of a window: of |x| (POWER), of max(x, floor) (FLOORED), or weighted by softmax (SOFT)."""

    kind: Literal[0, 1, 2]
    window: Window
    floor: float = 0.0
    mean: bool = True
    """Whether the sum of powers is divided by the number of cells."""
