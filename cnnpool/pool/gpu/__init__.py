"""Operators on GPU tensors by Triton's kernels."""
