"""cnnpool: choose a CNN's downsampling on evidence."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cnnpool.pool import avg_pool2d, max_pool2d
    from cnnpool.surgery import as_modules, swap
    from cnnpool.system.hardware import keep_memory

__version__ = "0.3.0"
__all__ = ["__version__", "as_modules", "avg_pool2d", "keep_memory", "max_pool2d", "swap"]


# Hidden from type checkers, which would believe in any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # Imported on first use, since `cnnpool --help` must not wait for torch.
        if name in ("as_modules", "swap"):
            from cnnpool import surgery

            return getattr(surgery, name)
        if name in ("avg_pool2d", "max_pool2d"):
            from cnnpool import pool

            return getattr(pool, name)
        if name == "keep_memory":
            from cnnpool.system.hardware import keep_memory

            return keep_memory
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
