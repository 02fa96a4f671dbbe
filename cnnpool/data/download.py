"""Download published files over HTTP, checked by their MD5 sums; a file is on disk whole or not at all."""

import hashlib
import logging
import tarfile
import time
from collections.abc import Iterable, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO
from urllib.error import URLError
from urllib.request import Request, urlopen

from cnnpool.data.errors import DataError
from cnnpool.system.atomic import replacing

_log = logging.getLogger(__name__)

TIMEOUT_S = 60
"""Without a byte, before a server is given up."""
REPORT_S = 5
CHUNK = 1 << 20
MIB = 1 << 20


def download(urls: Sequence[str], path: Path, md5: str) -> None:
    """Bring the file at the first of ``urls`` that provides it to ``path``, unless it is there already.

    Args:
        urls: of the same file, at least one; a proxy is taken from the environment.
        path: its folder is created. One process at a time.
        md5: of the file, in hexadecimal digits.

    Raises:
        DataError: naming every address and how it failed.
        OSError: if ``path`` cannot be written.
    """
    if path.exists() and _md5(path) == md5:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    failures = []
    for url in urls:
        _log.info("downloading %s to %s", url, path)
        try:
            with replacing(path, maker="download", flush=False) as file:
                if _fetch(url, file) != md5:
                    raise _FetchError(f"its MD5 is not {md5}")
            return
        except _FetchError as error:
            failures.append(f"{url}: {error}")
    raise DataError("; ".join(failures))


def unpack(archive: Path, names: Iterable[str], folder: Path) -> None:
    """Write the files called ``names``, nothing else, from a tar file into ``folder``.

    Raises:
        DataError: if it is not a tar file or lacks one.
        OSError: if a file cannot be written.
    """
    try:
        with tarfile.open(archive) as tar:
            for name in names:
                content = tar.extractfile(name)
                if content is None:
                    raise KeyError(name)
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.read())
    except (KeyError, tarfile.TarError, EOFError) as error:
        raise DataError(f"cannot unpack {archive} ({_reason(error)}): delete it and run again") from error


class _FetchError(Exception):
    """An address that did not provide the file."""


def _fetch(url: str, file: BinaryIO) -> str:
    """Write the content at ``url`` into ``file``: its MD5 sum, in hexadecimal digits."""
    digest = hashlib.md5(usedforsecurity=False)
    size, reported = 0, time.monotonic()
    try:
        with urlopen(Request(url, headers={"User-Agent": "cnnpool"}), timeout=TIMEOUT_S) as response:
            expected = int(response.headers.get("Content-Length") or 0)
            while chunk := response.read(CHUNK):
                file.write(chunk)
                digest.update(chunk)
                size += len(chunk)
                if time.monotonic() - reported > REPORT_S:
                    reported = time.monotonic()
                    _log.info("%d of %d MiB", size // MIB, expected // MIB)
    except (URLError, HTTPException, TimeoutError, ConnectionError) as error:
        raise _FetchError(_reason(error)) from error
    if size < expected:
        raise _FetchError(f"it ended after {size:,} of {expected:,} bytes")
    return digest.hexdigest()


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _reason(error: Exception) -> str:
    """The error's message on one line; of a ``URLError``, that of the error within."""
    inner = getattr(error, "reason", None)
    error = inner if isinstance(inner, Exception) else error
    said = str(error)
    if isinstance(error, OSError):
        said = error.strerror or said
    return " ".join(said.split())[:200] or type(error).__name__
