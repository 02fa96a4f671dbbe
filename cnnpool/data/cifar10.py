"""CIFAR-10 from its published Python batches, unpickled by a reader that admits arrays only."""

import hashlib
import io
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from cnnpool.bounds import CountOrZero
from cnnpool.data.base import Raw, Split, from_pixels
from cnnpool.data.download import download, unpack
from cnnpool.data.errors import DataError, IncompleteError
from cnnpool.data.published import Published


@dataclass(frozen=True, kw_only=True)
class CIFAR10(Published):
    """Photographs of ten kinds of things, 50,000 and 10,000 colour images of 32x32 (Krizhevsky 2009).

    Reads ``<root>/cifar-10-batches-py``, where torchvision puts it. Each file is read once, checked by its
    published MD5 sum, and those bytes are unpickled, with nothing but arrays and plain values admitted.
    """

    crop: CountOrZero = 4
    flip: bool = True

    title: ClassVar[str] = "CIFAR10"
    mirrors: ClassVar[tuple[str, ...]] = ("https://www.cs.toronto.edu/~kriz/",)
    archive: ClassVar[str] = "cifar-10-python.tar.gz"
    archive_md5: ClassVar[str] = "c58f30108f718f92721af3b95e74349a"
    folder: ClassVar[str] = "cifar-10-batches-py"
    labels: ClassVar[str] = "labels"
    names: ClassVar[str] = "label_names"
    train: ClassVar[dict[str, str]] = {
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    }
    """MD5 of each file."""
    test: ClassVar[dict[str, str]] = {"test_batch": "40351d587109b95175f43aff81a1287e"}
    meta: ClassVar[dict[str, str]] = {"batches.meta": "5ff9c542aee3614f3951f8cda6e48888"}

    def _download(self, root: Path) -> None:
        archive = root / self.archive
        download(self._urls(archive.name), archive, self.archive_md5)
        unpack(archive, [f"{self.folder}/{name}" for name in (self.train | self.test | self.meta)], root)

    def _parse(self, folder: Path) -> Raw:
        (meta,) = _batches(folder, self.meta)
        classes = tuple(meta[self.names])
        return Raw(classes, self._split(folder, self.train), self._split(folder, self.test))

    def _split(self, folder: Path, files: dict[str, str]) -> Split:
        batches = _batches(folder, files)
        planes = np.concatenate([batch["data"] for batch in batches]).reshape(-1, 3, 32, 32)
        labels = np.concatenate([np.asarray(batch[self.labels], np.int64) for batch in batches])
        return from_pixels(np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), labels)


def _batches(folder: Path, files: dict[str, str]) -> list[dict[str, Any]]:
    """The content of each file, once its MD5 sum is checked."""
    batches = []
    for name, md5 in files.items():
        path = folder / name
        try:
            data = path.read_bytes()
        except OSError as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise IncompleteError(
                f"cannot read {path} ({reason}): set data.download=true, put it there by hand, "
                "or name another folder by data.root=FOLDER"
            ) from error
        if hashlib.md5(data, usedforsecurity=False).hexdigest() != md5:
            raise IncompleteError(f"{path} is damaged (its MD5 is not {md5}): delete it and run again")
        batches.append(load_arrays(data, path))
    return batches


def load_arrays(data: bytes, path: Path) -> Any:
    """Unpickle arrays, texts, numbers, lists and dictionaries; anything else is refused before it is called.

    Raises:
        DataError: if the pickle names anything else or is broken; the message names ``path``.
    """
    try:
        return _ArrayUnpickler(io.BytesIO(data), encoding="latin1").load()
    except Exception as error:
        # A broken pickle raises nearly anything.
        raise DataError(f"{path} is not a pickle of arrays ({error}): delete it and run again") from error


def _dtype(code: str, align: Any = False, copy: Any = False) -> np.dtype:
    # Old pickles give the flags as 0 and 1, which NumPy 2.4 warns about.
    return np.dtype(code, bool(align), bool(copy))


def _bytes(text: str, encoding: str) -> bytes:
    # How Python 3 writes bytes into an old pickle.
    return text.encode("latin1")


class _ArrayUnpickler(pickle.Unpickler):
    admitted: ClassVar[dict[tuple[str, str], Any]] = {
        ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
        ("numpy._core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): _dtype,
        ("_codecs", "encode"): _bytes,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.admitted:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return self.admitted[module, name]
