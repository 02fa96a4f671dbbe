"""Replace the downsampling, or the head, of a model that exists."""

from cnnpool.surgery.swap import Change, swap

__all__ = ["Change", "swap"]
