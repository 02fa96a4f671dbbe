"""Digest of what shows that files have changed, without reading them."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path


def stamp(head: str, root: Path, paths: Iterable[str]) -> str:
    """Digest of ``head``, and of the name below ``root``, size, time of change and rights of every file."""
    digest = hashlib.sha256(head.encode())
    for path in paths:
        name = os.fsencode(path)[len(os.fsencode(root)) :]
        try:
            status = os.stat(path)
            facts = (status.st_size, status.st_mtime_ns, status.st_mode)
        except OSError as error:
            # A broken link.
            facts = (-1, error.errno or 0, 0)
        digest.update(b"%s\0%d\0%d\0%d\0" % (name, *facts))
    return digest.hexdigest()
