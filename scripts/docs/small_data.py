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
"""Of every data set, what replaces the constants of its class in ``torchvision.datasets``."""


def publish(folder: Path, train: int = TRAIN, test: int = TEST) -> Constants:
    """Write files of so many images of all downloadable data sets to ``folder``; their names and digests."""
    return {
        "mnist": _idx_files(folder / "mnist", train, test),
        "fashion_mnist": _idx_files(folder / "fashion_mnist", train, test),
        "cifar10": _archive(
            folder / "cifar10",
            "cifar-10-python.tar.gz",
            "cifar-10-batches-py",
            {f"data_batch_{i}": train // 5 for i in range(1, 6)},
            {"test_batch": test},
            ("batches.meta", "label_names"),
            10,
            "labels",
        ),
        "cifar100": _archive(
            folder / "cifar100",
            "cifar-100-python.tar.gz",
            "cifar-100-python",
            {"train": train},
            {"test": test},
            ("meta", "fine_label_names"),
            100,
            "fine_labels",
        ),
    }


def images(count: int, shape: tuple[int, ...], classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Images, (N, ...), and labels, (N,).

    One pattern a class, brighter or darker, so that there is something to learn and files are small.
    """
    patterns = np.random.default_rng(0).integers(0, 128, (classes, *shape), np.uint8)
    labels = np.arange(count) % classes
    brightness = (np.arange(count) // classes % 64).astype(np.uint8)
    return patterns[labels] + brightness.reshape(-1, *[1] * len(shape)), labels


def _idx_files(folder: Path, train: int, test: int) -> dict[str, Any]:
    folder.mkdir(parents=True)
    arrays = [array for count in (train, test) for array in images(count, (28, 28), 10)]
    resources = []
    for name, array in zip(MNIST_FILES, arrays, strict=True):
        header = struct.pack(f">BBBB{array.ndim}i", 0, 0, 8, array.ndim, *array.shape)
        packed = gzip.compress(header + array.astype(np.uint8).tobytes(), 1, mtime=0)
        (folder / f"{name}.gz").write_bytes(packed)
        resources.append([f"{name}.gz", _md5(packed)])
    return {"resources": resources}


def _archive(
    folder: Path,
    name: str,
    inner: str,
    train: dict[str, int],
    test: dict[str, int],
    meta: tuple[str, str],
    classes: int,
    labels: str,
) -> dict[str, Any]:
    files: dict[str, Any] = {meta[0]: {meta[1]: [f"class{i}" for i in range(classes)]}}
    for file, count in (train | test).items():
        planes, numbers = images(count, (3072,), classes)
        files[file] = {"data": planes, labels: numbers.tolist()}
    pickled = {file: pickle.dumps(content, protocol=2) for file, content in files.items()}
    folder.mkdir(parents=True)
    with tarfile.open(folder / name, "w:gz", compresslevel=1) as tar:
        for file, content in pickled.items():
            info = tarfile.TarInfo(f"{inner}/{file}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    sums = {file: _md5(content) for file, content in pickled.items()}
    return {
        "filename": name,
        "tgz_md5": _md5((folder / name).read_bytes()),
        "train_list": [[file, sums[file]] for file in train],
        "test_list": [[file, sums[file]] for file in test],
        "meta": {"filename": meta[0], "key": meta[1], "md5": sums[meta[0]]},
    }


def _md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
