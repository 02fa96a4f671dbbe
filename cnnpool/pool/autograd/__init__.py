"""Autograd functions that several operators share: linear maps, winners, phases, saved values."""
