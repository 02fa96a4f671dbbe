"""Replace the downsampling, or the head, of a model that exists."""

from cnnpool.surgery.replace import Change, swap

__all__ = ["Change", "swap"]
