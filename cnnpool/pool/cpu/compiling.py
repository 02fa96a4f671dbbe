"""Kernels compiled by Numba on first use and cached on disk; compilation is logged."""

import logging
import os
import shutil
import sys
import time
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, ParamSpec, Protocol, TypeVar

import numba
from numba import njit
from numba.core import event

log = logging.getLogger(__name__)
config: Any = numba.config

INTERVAL_S = 20.0
"""Seconds between log lines."""
LOOPS = Path(__file__).parent / "loops"
# Wrappers that nobody calls would be compiled as well, each with all that is inlined.
CALLED: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
LINKED = CALLED | {"no_cpython_wrapper": True}

P = ParamSpec("P")
Result = TypeVar("Result", covariant=True)


class Kernel(Protocol[P, Result]):
    """A function that Numba compiles for the types of each call."""

    @property
    def py_func(self) -> Callable[P, Result]: ...
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Result: ...


def compiled(function: Callable[P, Result], inner: bool = False) -> Kernel[P, Result]:
    """``function`` compiled on first use, without the GIL, and cached in ``cache_folder``; an ``inner`` one
    only other kernels can call.
    """
    folder, options = cache_folder(), LINKED if inner else CALLED
    before, config.CACHE_DIR = config.CACHE_DIR, str(folder or "")
    try:
        kernel: Kernel[P, Result] = njit(**options, cache=folder is not None)(function)
    except RuntimeError:
        _warn(str(folder), "Numba finds no place for them")
        kernel = njit(**options)(function)
    finally:
        config.CACHE_DIR = before
    return kernel


@cache
def cache_folder() -> Path | None:
    """The folder of compiled kernels, or None if none is writable: then every process compiles.

    It lies in the folder named by ``NUMBA_CACHE_DIR``, else beside the sources, else in the user's cache. Its
    name contains a digest of all loops: Numba checks only a kernel's own file, and would reuse a kernel whose
    helpers have changed.
    """
    sources = b"\0".join(file.read_bytes() for file in sorted(LOOPS.parent.rglob("*.py")))
    name = f"kernels-{sha256(sources).hexdigest()[:16]}"
    beside, own = LOOPS / "__pycache__", os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    homes = [Path(config.CACHE_DIR)] if config.CACHE_DIR else [beside, Path(own, "cnnpool")]
    reason = ""
    for home in homes:
        try:
            (home / name).mkdir(parents=True, exist_ok=True)
            with TemporaryFile(dir=home / name) as probe:
                probe.write(bytes(1 << 20))
        except OSError as error:
            reason = str(error.strerror)
            continue
        for stale in beside.glob("kernels-*") if home == beside else ():
            if stale.name != name:
                shutil.rmtree(stale, ignore_errors=True)
        return home / name
    _warn(" or ".join(map(str, homes)), reason)
    return None


def is_unsaved(error: BaseException) -> bool:
    """Whether ``error`` means that a compiled kernel could not be written: the call may be repeated."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    # Another process may be writing the same kernel.
    if cause is not None and not isinstance(cause, FileExistsError | FileNotFoundError):
        _warn(str(cache_folder()), str(cause.strerror or cause))
    return cause is not None


@cache
def _warn(where: str, reason: str) -> None:
    log.warning(
        "compiled kernels cannot be kept in %s, so every run compiles them: %s; free space there, or name "
        "another folder by NUMBA_CACHE_DIR",
        where,
        reason,
    )


class CompilationLog(event.Listener):
    """Logs that kernels of ``package`` are compiled and, from time to time, how many."""

    def __init__(self, package: str):
        self._package = f"{package}."
        self._count = 0
        self._logged_s = 0.0

    def on_start(self, event: event.Event) -> None:
        """Called before a kernel is compiled, but not if it is found on disk."""
        if not event.data["dispatcher"].py_func.__module__.startswith(self._package):
            return
        now = time.monotonic()
        if not self._count:
            _show("compiling kernels, once for this machine")
            self._logged_s = now
        elif now - self._logged_s >= INTERVAL_S:
            _show(f"compiling kernels, once for this machine: {self._count} so far")
            self._logged_s = now
        self._count += 1

    def on_end(self, event: event.Event) -> None:
        """Does nothing; Numba requires the method."""


def _show(text: str) -> None:
    """Log ``text``, or write it to stderr if logging is not configured, as in a user's script."""
    if log.isEnabledFor(logging.INFO):
        log.info("%s", text)
    else:
        sys.stderr.write(f"{text}\n")


event.register("numba:compile", CompilationLog(__name__.partition(".")[0]))
