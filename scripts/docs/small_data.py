"""Make small data sets in the published formats: a mirror's files, and their digests."""

import gzip
import hashlib
import io
import pickle
import struct
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

TRAIN, TEST = 6000, 500
"""Images: more than the validation cut of 5000 that a run makes by default."""
MNIST_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
Constants = dict[str, dict[str, Any]]
"""Of every data set, the class constants to replace: ``{"mnist": {"mirrors": [...], "md5": {...}}}``."""


def publish(folder: Path) -> Constants:
    """Write the files of all downloadable data sets to ``folder``, and return their digests."""
    return {
        "mnist": _idx_files(folder / "mnist"),
        "fashion_mnist": _idx_files(folder / "fashion_mnist"),
        "cifar10": _archive(
            folder / "cifar10",
            "cifar-10-python.tar.gz",
            "cifar-10-batches-py",
            {f"data_batch_{i}": TRAIN // 5 for i in range(1, 6)},
            {"test_batch": TEST},
            {"batches.meta": "label_names"},
            10,
            "labels",
        ),
        "cifar100": _archive(
            folder / "cifar100",
            "cifar-100-python.tar.gz",
            "cifar-100-python",
            {"train": TRAIN},
            {"test": TEST},
            {"meta": "fine_label_names"},
            100,
            "fine_labels",
        ),
    }


def _images(count: int, shape: tuple[int, ...], classes: int) -> tuple[np.ndarray, np.ndarray]:
    """One pattern a class, brighter or darker, so that there is something to learn and files are small."""
    patterns = np.random.default_rng(0).integers(0, 128, (classes, *shape), np.uint8)
    labels = np.arange(count) % classes
    brightness = (np.arange(count) // classes % 64).astype(np.uint8)
    return patterns[labels] + brightness.reshape(-1, *[1] * len(shape)), labels


def _idx_files(folder: Path) -> dict[str, Any]:
    folder.mkdir(parents=True)
    arrays = [array for count in (TRAIN, TEST) for array in _images(count, (28, 28), 10)]
    md5 = {}
    for name, array in zip(MNIST_FILES, arrays, strict=True):
        header = struct.pack(f">BBBB{array.ndim}i", 0, 0, 8, array.ndim, *array.shape)
        packed = gzip.compress(header + array.astype(np.uint8).tobytes(), 1, mtime=0)
        (folder / f"{name}.gz").write_bytes(packed)
        md5[name] = _md5(packed)
    return {"md5": md5, "sha256": None}


def _archive(
    folder: Path,
    name: str,
    inner: str,
    train: dict[str, int],
    test: dict[str, int],
    meta: dict[str, str],
    classes: int,
    labels: str,
) -> dict[str, Any]:
    files = {file: {key: [f"class{i}" for i in range(classes)]} for file, key in meta.items()}
    for file, count in (train | test).items():
        images, numbers = _images(count, (3072,), classes)
        files[file] = {"data": images, labels: numbers.tolist()}
    pickled = {file: pickle.dumps(content, protocol=2) for file, content in files.items()}
    folder.mkdir(parents=True)
    with tarfile.open(folder / name, "w:gz", compresslevel=1) as tar:
        for file, content in pickled.items():
            info = tarfile.TarInfo(f"{inner}/{file}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    sums = {file: _md5(content) for file, content in pickled.items()}
    parts = {part: {file: sums[file] for file in files} for part, files in (("train", train), ("test", test))}
    return {
        **parts,
        "meta": {file: sums[file] for file in meta},
        "archive_md5": _md5((folder / name).read_bytes()),
    }


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
