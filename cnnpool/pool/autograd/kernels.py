"""Signatures of the kernels in ``pool/cpu`` and ``pool/gpu``, and the means that they compute."""

from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from cnnpool.pool.autograd.linear_maps import Averaging, Blurring
from cnnpool.pool.window import Window

POWER: Literal[0] = 0
FLOORED: Literal[1] = 1
SOFT: Literal[2] = 2
EXPECTED: Literal[3] = 3


class Mean(NamedTuple):
    """The mean of a window: power mean of |x| (POWER) or of max(x, floor) (FLOORED), weighted by softmax
    (SOFT), or weighted by max(x, 0) (EXPECTED), which takes no number.
    """

    kind: Literal[0, 1, 2, 3]
    window: Window
    floor: float = 0.0
    mean: bool = True
    """Whether the sum of powers is divided by the number of cells."""


class LinearKernels(Protocol):
    """``linear``: averages and blurs, and their adjoints."""

    def average(self, x: Tensor, averaging: Averaging, adjoint: bool) -> Tensor: ...
    def blur(self, x: Tensor, blurring: Blurring, adjoint: bool) -> Tensor: ...


class MaxKernels(Protocol):
    """``max``: maxima and winners, and the gradient by the winners."""

    SKIPS_NOWHERE: bool

    def forward(self, x: Tensor, window: Window) -> tuple[Tensor, Tensor]: ...
    def backward(
        self, grad: Tensor, winners: Tensor, window: Window, size: tuple[int, int], last: bool
    ) -> Tensor: ...


class PackedMaxKernels(Protocol):
    """``max_2x2_packed``: maxima of 2x2 tiles and two-bit winners, and the gradient by the winners."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]: ...
    def backward(self, grad: Tensor, packed: Tensor, size: tuple[int, int], last: bool) -> Tensor: ...
    def unpack(self, packed: Tensor, shape: torch.Size, last: bool) -> Tensor: ...


class MaxBlurKernels(Protocol):
    """``max_blur``: blurred maxima and winners, and the gradient by the winners."""

    def forward(self, x: Tensor, blurring: Blurring) -> tuple[Tensor, Tensor]: ...
    def backward(self, grad: Tensor, winners: Tensor, blurring: Blurring) -> Tensor: ...


class PhaseKernels(Protocol):
    """``phases``: the norms of all phases of a map; one phase of each sample, and the adjoint."""

    def norms(self, x: Tensor, stride: tuple[int, int], scale: float, squared: bool) -> Tensor: ...
    def take(self, x: Tensor, phase: Tensor, stride: tuple[int, int], last: bool) -> Tensor: ...
    def put(self, y: Tensor, phase: Tensor, stride: tuple[int, int], last: bool) -> Tensor: ...


class MultinomialKernels(Protocol):
    """``multinomial``: one value drawn from each window, or the expected value."""

    def drawn(self, x: Tensor, uniforms: Tensor, window: Window) -> tuple[Tensor, Tensor, bool, bool]: ...
    def expected(self, x: Tensor, window: Window) -> Tensor: ...


class MeanKernels(Protocol):
    """``window_means``: power means and soft means, and their gradients."""

    def forward(self, x: Tensor, number: Tensor | float, how: Mean) -> Tensor: ...
    def backward(
        self, grad: Tensor, x: Tensor, number: Tensor | float, how: Mean, learnt: bool
    ) -> tuple[Tensor, Tensor | None]: ...
