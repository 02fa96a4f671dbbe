"""Training: one function, ``fit``. The only room that imports Lightning."""

from cnnpool.checkpoint import DamagedError
from cnnpool.fit.fit import Facts, fit
from cnnpool.fit.module import DivergedError
from cnnpool.recipe import Recipe

__all__ = ["DamagedError", "DivergedError", "Facts", "Recipe", "fit"]
