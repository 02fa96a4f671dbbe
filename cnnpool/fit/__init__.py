"""Training: one function, ``fit``. The only room that imports Lightning."""

from cnnpool.fit.fit import Facts, fit
from cnnpool.fit.module import DivergedError
from cnnpool.recipe import Recipe
from cnnpool.run_folder.checkpoint import DamagedError

__all__ = ["DamagedError", "DivergedError", "Facts", "Recipe", "fit"]
