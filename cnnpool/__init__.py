"""cnnpool: choose a CNN's downsampling on evidence."""

__version__ = "0.1.0"
