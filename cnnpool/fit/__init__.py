"""Training: one function, ``fit``. With ``cnnpool.lightning`` the only room that imports Lightning."""

from cnnpool.fit.fit import fit
from cnnpool.fit.module import DivergedError
from cnnpool.fit.prepare import Facts
from cnnpool.recipe import Recipe
from cnnpool.run_folder.errors import DamagedError

__all__ = ["DamagedError", "DivergedError", "Facts", "Recipe", "fit"]
