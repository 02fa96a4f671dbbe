"""Disks that are full, or that nothing can be written to."""

import os
import tempfile
from pathlib import Path


def disk_full_after(writes):
    def before():
        kept, count = os.fsync, [0]

        def fsync(descriptor):
            count[0] += 1
            if count[0] > writes:
                raise OSError(28, "No space left on device")
            kept(descriptor)

        os.fsync = fsync

    return before


def kernels_on_a_full_disk():
    """Numba, imported later, keeps compiled kernels in a folder that has no room for them."""
    os.environ["NUMBA_CACHE_DIR"] = str(Path("kernels").resolve())
    kept = os.replace

    def replace(source, target):
        if str(target).startswith(os.environ["NUMBA_CACHE_DIR"]):
            raise OSError(28, "No space left on device", str(target))
        kept(source, target)

    os.replace = replace


def kernels_without_a_folder():
    """Numba, imported later, can write no folder for compiled kernels."""

    def refuse(*arguments, **options):
        raise OSError(30, "Read-only file system")

    tempfile.TemporaryFile = refuse
