"""Loops compiled by Numba, in modules named as their callers in ``cpu``."""
