"""Replace the downsampling, or the head, of an existing model."""

from cnnpool.surgery.calls import as_modules
from cnnpool.surgery.carry_out import Change
from cnnpool.surgery.replace import swap

__all__ = ["Change", "as_modules", "swap"]
