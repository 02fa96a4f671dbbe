"""Published images held in memory: the embedded digits, and MNIST and the like, read by torchvision.

``digits.csv.gz`` beside this file is an exact copy of scikit-learn's (BSD 3-Clause): the test part of UCI's
"Optical Recognition of Handwritten Digits" (E. Alpaydin and C. Kaynak, 1998; CC BY 4.0), one image per row:
64 values 0..16 and the digit.
"""

import logging
import socket
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import numpy as np
import torch
from annotated_types import Ge, Le
from filelock import FileLock

from cnnpool.bounds import CountOrZero
from cnnpool.data.base import Raw, Source, Split, ValSize, from_pixels
from cnnpool.data.draws import stratified
from cnnpool.data.errors import DataError, DownloadError

_log = logging.getLogger(__name__)

T = TypeVar("T")
TABLE = Path(__file__).with_name("digits.csv.gz")
TIMEOUT_S = 60  # Seconds without data after which a server is given up
FETCH = "set data.download=true, or name the folder that holds it by data.root=FOLDER"


@dataclass(frozen=True, kw_only=True)
class Digits(Source):
    """1,797 handwritten digits of 8x8 pixels in 17 greys (Alpaydin and Kaynak 1998, UCI), enlarged to 28x28.

    There is no official split: 360 fixed images, stratified by class, are the test images. The same people
    wrote both parts, so accuracies are not comparable with published figures. ``root`` and ``download`` are
    accepted but not needed.

    Args:
        size: H and W, 8 to 512.
    """

    val_size: ValSize = 0.15
    size: Annotated[int, Ge(8), Le(512)] = 28

    by_class: ClassVar[bool] = False
    test_size: ClassVar[int] = 360

    def read(self) -> Raw:
        table = np.loadtxt(TABLE, delimiter=",", dtype=np.int64)
        pixels = enlarge(table[:, :64].reshape(-1, 8, 8), self.size)[..., None]
        labels = torch.from_numpy(table[:, 64])
        whole = from_pixels(pixels, labels)
        order = stratified(labels, seed=0)
        test, train = order[: self.test_size].sort().values, order[self.test_size :].sort().values
        return Raw(tuple("0123456789"), whole.take(train), whole.take(test))


def enlarge(images: np.ndarray, size: int) -> np.ndarray:
    """(N, n, n) of 0..16, resized to (N, size, size) of 0..255 as by torch's bilinear ``interpolate``.

    In integers, so the sums are exact on every machine: weights are multiples of 1/(2 size).
    """
    n, unit = images.shape[-1], 2 * size
    position = np.clip((2 * np.arange(size) + 1) * n - size, 0, (n - 1) * unit)
    low, part = np.divmod(position, unit)
    weights = np.zeros((size, n), np.int64)
    weights[np.arange(size), low] = unit - part
    weights[np.arange(size), np.minimum(low + 1, n - 1)] += part
    whole = 16 * unit**2
    return ((weights @ images.astype(np.int64) @ weights.T * 510 + whole) // (2 * whole)).astype(np.uint8)


@dataclass(frozen=True, kw_only=True)
class Published(Source):
    """A data set that torchvision holds in memory, with files in ``root`` as torchvision arranges them."""

    val_size: ValSize = 5000

    by_class: ClassVar[bool] = False
    title: ClassVar[str]  # Name of the class in ``torchvision.datasets``
    folder: ClassVar[str]  # Folder of its files, below the root
    classes: ClassVar[tuple[str, ...]] = ()  # Names of the classes; empty for torchvision's
    sha256: ClassVar[str | None] = None  # See ``Raw``; needless where torchvision checks all files

    def read(self) -> Raw:
        """The data set, unpacked or downloaded first if files are missing or damaged; else a DataError."""
        root = Path(self.root).expanduser()
        return obtained(
            self.title,
            root,
            root / self.folder,
            partial(self._raw, root),
            (lambda: self._kind()(root, download=True)) if self.download else None,
            partial(self._archives, root),
        )

    def _raw(self, root: Path) -> Raw:
        with warnings.catch_warnings():
            # NumPy 2.4 warns about flags in old pickles of arrays, such as CIFAR's files.
            warnings.simplefilter("ignore", np.exceptions.VisibleDeprecationWarning)
            train, test = (self._kind()(root, train=train) for train in (True, False))
        raw = Raw(self.classes or tuple(train.classes), _split(train), _split(test))
        if self.sha256 not in (None, raw.sha256):
            raise DataError(f"its images are not those of {self.title}")
        return raw

    def _archives(self, root: Path) -> list[tuple[Path, str]]:
        kind = self._kind()
        if hasattr(kind, "resources"):
            return [(root / self.folder / name, md5) for name, md5 in kind.resources]
        return [(root / kind.filename, kind.tgz_md5)]

    def _kind(self) -> Any:
        from torchvision import datasets

        return getattr(datasets, self.title)


def _split(part: Any) -> Split:
    pixels = torch.as_tensor(part.data)
    # Grey images have no channel axis.
    return from_pixels(pixels if pixels.ndim == 4 else pixels[..., None], torch.as_tensor(part.targets))


@dataclass(frozen=True, kw_only=True)
class MNIST(Published):
    """Handwritten digits, 60,000 and 10,000 grey images of 28x28 (LeCun 1998)."""

    title: ClassVar[str] = "MNIST"
    folder: ClassVar[str] = "MNIST/raw"
    classes: ClassVar[tuple[str, ...]] = tuple("0123456789")
    # torchvision checks the packed files only.
    sha256: ClassVar[str | None] = "1d5a506bc00bbf716fd224d8d2716b27d1fa803e112a9d0ba956e7169da03d72"


@dataclass(frozen=True, kw_only=True)
class FashionMNIST(Published):
    """Pieces of clothing, 60,000 and 10,000 grey images of 28x28 (Xiao 2017, arXiv:1708.07747)."""

    title: ClassVar[str] = "FashionMNIST"
    folder: ClassVar[str] = "FashionMNIST/raw"
    classes: ClassVar[tuple[str, ...]] = (
        *("t_shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag"),
        "ankle_boot",
    )

    def _raw(self, root: Path) -> Raw:
        raw = super()._raw(root)
        # Its files have the same names.
        if raw.sha256 == MNIST.sha256:
            raise DataError("the images there are those of MNIST")
        return raw


@dataclass(frozen=True, kw_only=True)
class CIFAR10(Published):
    """Photographs of ten kinds of things, 50,000 and 10,000 colour images of 32x32 (Krizhevsky 2009)."""

    crop: CountOrZero = 4
    flip: bool = True

    title: ClassVar[str] = "CIFAR10"
    folder: ClassVar[str] = "cifar-10-batches-py"


@dataclass(frozen=True, kw_only=True)
class CIFAR100(CIFAR10):
    """Photographs of a hundred kinds of things (the fine labels), 50,000 and 10,000 (Krizhevsky 2009)."""

    title: ClassVar[str] = "CIFAR100"
    folder: ClassVar[str] = "cifar-100-python"


def obtained(
    title: str,
    root: Path,
    folder: Path,
    read: Callable[[], T],
    download: Callable[[], object] | None = None,
    archives: Callable[[], Sequence[tuple[Path, str]]] = tuple,
    remedy: str = FETCH,
) -> T:
    """The result of ``read``, if needed after unpacking ``archives`` or by ``download``; else a DataError.

    ``archives``, called if ``read`` failed, gives paths and MD5 sums.
    """
    try:
        return read()
    except Exception as error:
        # Each data set raises different errors for missing or damaged files.
        steps = [*_unpacking(archives(), download is not None), *filter(None, [download])]
        if not steps:
            raise DataError(f"cannot read {title} in {folder} ({_reason(error)}): {remedy}") from error
    verb = "download" if download else "unpack"
    try:
        with FileLock(root / f".{title}.lock"), ExitStack() as undo:
            # torchvision waits for a silent server.
            undo.callback(socket.setdefaulttimeout, socket.getdefaulttimeout())
            socket.setdefaulttimeout(TIMEOUT_S)
            # Before the first step: another process may have fetched it while this one waited.
            for step in (lambda: None, *steps):
                if step is download:
                    _log.info("downloading %s to %s", title, folder)
                try:
                    step()
                    return read()
                except Exception as error:
                    last = error
            raise last
    except Exception as error:
        raise (DownloadError if download else DataError)(
            f"cannot {verb} {title} ({_reason(error)}): put its files into {folder.absolute()} by hand, "
            "without damaged ones, or name another folder by data.root=FOLDER"
        ) from error


def _unpacking(archives: Sequence[tuple[Path, str]], may_download: bool) -> Iterator[Callable[[], object]]:
    """Steps that unpack the archives that are intact; a DataError for a damaged one without download."""
    from torchvision.datasets import utils

    for path, md5 in archives:
        if utils.check_integrity(path, md5):
            yield partial(utils.extract_archive, str(path))
        elif path.exists() and not may_download:
            raise DataError(f"{path} is damaged (its MD5 sum is not as published): {FETCH}")


def _reason(error: Exception) -> str:
    said = " ".join(str(error).partition("You can use download=True")[0].split()).rstrip(". ")
    return said[:300] or type(error).__name__
