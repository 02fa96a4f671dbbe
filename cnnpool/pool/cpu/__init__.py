"""Operators on plain CPU tensors by loops that Numba compiles: the side that faces torch."""
