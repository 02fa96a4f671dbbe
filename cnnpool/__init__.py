"""cnnpool: choose a CNN's downsampling on evidence."""

from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Looked up on first use, since `cnnpool --help` shall not wait for torch.
    if name == "swap":
        from cnnpool.surgery import swap

        return swap
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
