"""Loops compiled by Numba, under the stems of the modules of ``cpu`` that call them."""
