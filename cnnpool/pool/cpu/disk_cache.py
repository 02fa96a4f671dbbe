"""Compiled kernels on disk: Numba's cache, with a checksum of every file in it.

Numba loads whatever it finds. A damaged file then causes a long traceback or a crash, and a kernel counts as
current while its own file is unchanged, even if a kernel that it calls has changed. So before Numba looks at
the files of a kernel, they are compared with the checksums that were written with them; files that differ are
removed, and the kernel is compiled again. Checksums of other sources or another Numba do not count.
"""

import errno
import logging
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

from numba import __version__ as numba_version
from numba import njit

from cnnpool.pool.cpu import compiling  # noqa: F401
from cnnpool.system.atomic import write_text

log = logging.getLogger(__name__)

SOURCES = Path(__file__).parent / "loops"
CANNOT_WRITE = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ENOENT),
    *(errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG),
}

# Numba's mark for the version of Python in the name of every file.
PYTHON = f".py{sys.version_info.major}{sys.version_info.minor}."

P = ParamSpec("P")
Result = TypeVar("Result", covariant=True)


class Kernel(Protocol[P, Result]):
    """A function that Numba compiles for the types of each call."""

    @property
    def py_func(self) -> Callable[P, Result]: ...
    @property
    def overloads(self) -> Mapping[Any, Any]: ...
    @property
    def stats(self) -> Any: ...
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Result: ...


versions: dict[Kernel[..., Any], int] = {}
"""Every kernel, and how many compiled versions of it ``account`` knows."""

_misses: dict[Kernel[..., Any], int] = {}
_complained = False


def compiled(function: Callable[P, Result]) -> Kernel[P, Result]:
    """``function`` compiled on first use, without the GIL, and kept on disk where that is possible."""
    kernel: Kernel[P, Result]
    try:
        kernel = njit(nogil=True, cache=True)(function)
    except RuntimeError:
        # Neither the package's folder nor the user's cache can be written: compile in every process.
        _complain("", "no folder for them can be written; name one")
        kernel = njit(nogil=True)(function)
        return kernel
    versions[kernel] = _misses[kernel] = 0
    _verify(kernel)
    return kernel


def account(kernel: Kernel[..., Any]) -> None:
    """Write the checksums of what was compiled for ``kernel``; to be called when it has a new version."""
    if kernel not in versions:
        return
    _listed.cache_clear()
    # A kernel is made of others, which are compiled with it.
    for each in versions:
        versions[each], misses = len(each.overloads), sum(each.stats.cache_misses.values())
        if misses != _misses[each]:
            _misses[each] = misses
            _write_sums(each)


def recover(error: BaseException) -> None:
    """Return if the call that raised ``error`` may be repeated, if need be without the files on disk.

    Raises:
        BaseException: ``error`` itself, if it has nothing to do with the files on disk.
    """
    if _cannot_write(error):
        # Numba has compiled the kernel before it failed to write it.
        new = [kernel for kernel, known in versions.items() if len(kernel.overloads) != known]
        versions.update({kernel: len(kernel.overloads) for kernel in new})
        if new:
            _cannot_keep(new[0], error)
            return
    elif [kernel for kernel in versions if not _verify(kernel)]:
        return
    raise error


def _cannot_write(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, OSError) and error.errno in CANNOT_WRITE:
            return True
        error = error.__cause__ or error.__context__
    return False


def _reason(error: BaseException | None) -> str:
    """The words of the first error of the machine behind ``error``."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__ or error.__context__
    return str(error and (error.strerror or error))


def _cannot_keep(kernel: Kernel[..., Any], error: BaseException) -> None:
    _complain(f" in {kernel.stats.cache_path}", f"{_reason(error)}; make room there, or name another folder")


def _complain(where: str, why: str) -> None:
    global _complained
    if not _complained:
        log.warning(
            "compiled kernels cannot be kept%s, so every run compiles them: %s by NUMBA_CACHE_DIR", where, why
        )
    _complained = True


def _verify(kernel: Kernel[..., Any]) -> bool:
    """Whether the files of ``kernel`` are as they were written; those that are not are removed."""
    folder, name = Path(kernel.stats.cache_path), _name(kernel)
    files = [folder / file for file in _listed(folder)[name]]
    try:
        text = _sums_file(kernel).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = ""
    if not files or text == _sums(files):
        return True
    if text.partition("\n")[0] == _key():
        log.warning(
            "the compiled kernel %s on disk is damaged or just being written: it is compiled again", name
        )
    for file in files:
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            _cannot_keep(kernel, error)
    _listed(folder)[name] = []
    return False


def _write_sums(kernel: Kernel[..., Any]) -> None:
    folder, name, target = Path(kernel.stats.cache_path), _name(kernel), _sums_file(kernel)
    files = [folder / file for file in _listed(folder)[name]]
    try:
        write_text(target, _sums(files), flush=False)
    except OSError as error:
        _cannot_keep(kernel, error)


def _sums(files: list[Path]) -> str:
    """The key, then a line for each of ``files`` in the format of ``sha256sum``."""
    lines = [_key()]
    for file in sorted(files):
        try:
            lines.append(f"{sha256(file.read_bytes()).hexdigest()}  {file.name}")
        except OSError:
            lines.append(f"-  {file.name}")
    return "\n".join([*lines, ""])


@cache
def _key() -> str:
    """A hash of all that compiled kernels depend on: every source, and Numba's version."""
    total = sha256(numba_version.encode())
    for file in sorted(SOURCES.glob("*.py")):
        total.update(file.name.encode() + b"\0" + file.read_bytes())
    return f"# {total.hexdigest()}"


def _name(kernel: Kernel[..., Any]) -> str:
    """How the names of a kernel's files begin, up to the number of its line."""
    code = kernel.py_func.__code__
    return f"{Path(code.co_filename).stem}.{kernel.py_func.__qualname__}"


def _sums_file(kernel: Kernel[..., Any]) -> Path:
    return Path(kernel.stats.cache_path) / f"{_name(kernel)}{PYTHON}sha256"


@cache
def _listed(folder: Path) -> defaultdict[str, list[str]]:
    """The files of Numba's cache in ``folder``, by the kernel's name."""
    files = defaultdict(list)
    try:
        for entry in os.scandir(folder):
            if entry.name.endswith((".nbi", ".nbc")) and PYTHON in entry.name:
                files[entry.name.partition("-")[0]].append(entry.name)
    except OSError:
        pass
    return files
