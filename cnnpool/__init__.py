"""cnnpool: choose a CNN's downsampling on evidence."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cnnpool.surgery import as_modules, swap
    from cnnpool.system.hardware import keep_memory

__version__ = "0.1.0"
__all__ = ["__version__", "as_modules", "keep_memory", "swap"]


def __getattr__(name: str) -> Any:
    # Imported on first use, since `cnnpool --help` must not wait for torch.
    if name in ("as_modules", "swap"):
        from cnnpool import surgery

        return getattr(surgery, name)
    if name == "keep_memory":
        from cnnpool.system.hardware import keep_memory

        return keep_memory
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
