"""MNIST from the four published files, read without torchvision."""

import gzip
import hashlib
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from cnnpool.data.base import Raw, Split, from_pixels
from cnnpool.data.download import download
from cnnpool.data.errors import DataError, IncompleteError
from cnnpool.data.published import Published


@dataclass(frozen=True, kw_only=True)
class MNIST(Published):
    """Handwritten digits, 60,000 and 10,000 grey images of 28x28 (LeCun 1998).

    Reads ``<root>/MNIST/raw``, where torchvision puts it: the .gz files if they are there, checked by their
    published MD5 sums, else the unpacked ones. The whole is then checked by its own digest.
    """

    title: ClassVar[str] = "MNIST"
    folder: ClassVar[str] = "MNIST/raw"
    mirrors: ClassVar[tuple[str, ...]] = (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "http://yann.lecun.com/exdb/mnist/",
    )
    classes: ClassVar[tuple[str, ...]] = tuple("0123456789")
    md5: ClassVar[dict[str, str]] = {
        "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
    }
    """Of each file as published, with .gz."""
    sha256: ClassVar[str | None] = "1d5a506bc00bbf716fd224d8d2716b27d1fa803e112a9d0ba956e7169da03d72"
    """Of the whole, see ``Raw.sha256``; None if not known."""

    def _download(self, root: Path) -> None:
        for name, md5 in self.md5.items():
            packed = root / self.folder / f"{name}.gz"
            if packed.exists() or not packed.with_suffix("").exists():
                download(self._urls(packed.name), packed, md5)

    def _parse(self, folder: Path) -> Raw:
        train_images, train_labels, test_images, test_labels = (
            _read(folder / name, md5) for name, md5 in self.md5.items()
        )
        raw = Raw(
            self.classes,
            self._split(train_images, train_labels, folder / "train-labels-idx1-ubyte"),
            self._split(test_images, test_labels, folder / "t10k-labels-idx1-ubyte"),
        )
        if self.sha256 not in (None, raw.sha256):
            raise DataError(f"the files in {folder} are not {self.title}: delete the folder and run again")
        return raw

    def _split(self, images: np.ndarray, labels: np.ndarray, path: Path) -> Split:
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise DataError(
                f"{path} and its images do not fit ({labels.shape} and {images.shape}): "
                "delete both and run again"
            )
        if labels.max(initial=0) >= len(self.classes):
            raise DataError(
                f"{path} holds label {labels.max()}, above {len(self.classes) - 1}: delete it and run again"
            )
        return from_pixels(images[..., None], labels)


def _read(path: Path, md5: str) -> np.ndarray:
    """The array of one file, packed or unpacked."""
    packed = path.with_name(f"{path.name}.gz")
    try:
        if not packed.exists():
            return parse_idx(path.read_bytes(), path)
        data = packed.read_bytes()
        if hashlib.md5(data, usedforsecurity=False).hexdigest() != md5:
            raise IncompleteError(f"{packed} is damaged (its MD5 is not {md5}): delete it and run again")
        return parse_idx(gzip.decompress(data), packed)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise IncompleteError(
            f"cannot read {packed} ({reason}): set data.download=true, put it there by hand, "
            "or name another folder by data.root=FOLDER"
        ) from error


def parse_idx(data: bytes, path: Path) -> np.ndarray:
    """The uint8 array in an idx file: 0, 0, 8, rank, then each length as a big-endian int32, then the bytes.

    Raises:
        DataError: if it is none, too short or too long; the message names ``path``.
    """
    rank = data[3] if data[:3] == b"\0\0\x08" and len(data) > 3 else 0
    begin = 4 + 4 * rank
    shape = tuple(np.frombuffer(data[4:begin], ">i4").tolist()) if rank and len(data) >= begin else ()
    if not shape or min(shape) < 0 or len(data) != begin + int(np.prod(shape, dtype=object)):
        raise DataError(f"{path} is not a complete idx file ({len(data)} bytes): delete it and run again")
    return np.frombuffer(data, np.uint8, offset=begin).reshape(shape).copy()
