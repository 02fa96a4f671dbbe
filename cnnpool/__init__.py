"""cnnpool: choose a CNN's downsampling on evidence."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cnnpool.launch.python import classifier, datamodule, load, train
    from cnnpool.pool import avg_pool2d, max_pool2d
    from cnnpool.report.render import compare
    from cnnpool.surgery import as_modules, swap
    from cnnpool.system.hardware import keep_memory
    from cnnpool.system.process import tune

__version__ = "0.3.0"
__all__ = [
    "__version__",
    "as_modules",
    "avg_pool2d",
    "classifier",
    "compare",
    "datamodule",
    "keep_memory",
    "load",
    "max_pool2d",
    "swap",
    "train",
    "tune",
]


# Hidden from type checkers, which would otherwise accept any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # Imported on first use: `cnnpool --help` must not wait for torch.
        if name in ("as_modules", "swap"):
            from cnnpool import surgery as source
        elif name in ("avg_pool2d", "max_pool2d"):
            from cnnpool import pool as source
        elif name in ("classifier", "datamodule", "load", "train"):
            from cnnpool.launch import python as source
        elif name == "compare":
            from cnnpool.report import render as source
        elif name == "keep_memory":
            from cnnpool.system import hardware as source
        elif name == "tune":
            from cnnpool.system import process as source
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(source, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
