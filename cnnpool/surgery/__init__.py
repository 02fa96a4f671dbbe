"""Replace the downsampling, or the head, of an existing model."""

from cnnpool.surgery.calls import as_modules
from cnnpool.surgery.replace import Change, swap

__all__ = ["Change", "as_modules", "swap"]
