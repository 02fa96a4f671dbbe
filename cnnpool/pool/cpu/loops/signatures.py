"""Decorators of the loops, and the types of their parameters for readers and mypy: Numba infers its own."""

from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol

from numba import extending, njit

from cnnpool.pool.cpu.compiling import LINKED, Kernel, Result
from cnnpool.pool.cpu.compiling import compiled as compiled

Address = int
"""The address of a tensor's first element, or of scratch memory."""
Number = Any
"""A float, an integer, or half precision as its bits: a loop is compiled for each."""
Pair = tuple[int, int]
"""(vertical, horizontal)."""
Map = tuple[int, int, int, int]
"""Height and width, the numbers of a pixel in a plane, and those of a pixel in memory."""
Grid = tuple[int, int, int, int, int, int]
"""Vertical and horizontal stride and padding, pixels of a line, and numbers of a part."""
Border = Pair
"""How many columns around a map there are, and the address of where each is and the one that it copies."""
Terms = tuple[Address, Address, Address, Address, Address, tuple[int, ...]]
"""The cells of every result: places, numbers, where each list starts, and the lists of rows and columns; if
there is one list alone, of four cells, their number as a length, which the compiler knows.
"""
P = ParamSpec("P")


class Intrinsic(Protocol):
    """A decorator of a function that generates code; callers do not pass its first parameter."""

    def __call__(self, generator: Callable[Concatenate[Any, P], Any], /) -> Callable[P, Any]: ...


# By Numba's own types, callers would have to pass the first parameter too.
intrinsic: Intrinsic = extending.intrinsic  # type: ignore[assignment]
intrinsic_of_literals: Intrinsic = extending.intrinsic(prefer_literal=True)  # type: ignore[assignment]


def inlined(function: Callable[P, Result]) -> Kernel[P, Result]:
    """``function`` for use inside loops: a loop with a call is not vectorised, and not all functions are
    inlined by default.
    """
    kernel: Kernel[P, Result] = njit(forceinline=True, **LINKED)(function)
    return kernel


def linked(function: Callable[P, Result]) -> Kernel[P, Result]:
    """``function`` compiled for loops that call it."""
    return compiled(function, inner=True)
