"""Operators on plain CPU tensors: the interface between torch and the loops that Numba compiles."""
