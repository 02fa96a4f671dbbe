"""MNIST, Fashion-MNIST and CIFAR by torchvision, from small files of their formats and a loopback mirror."""

import gc
import hashlib
import logging
import os
import pickle
import shutil
import socket
import threading
import warnings
from pathlib import Path

import loopback_mirror as mirror
import numpy as np
import pytest
import small_data
import torch
import torchvision

from cnnpool import data
from cnnpool.data import CIFAR10, MNIST, DataError
from cnnpool.data import published as room
from cnnpool.data.errors import DownloadError

SHAPES = {"mnist": (28, 28), "fashion_mnist": (28, 28), "cifar10": (3, 32, 32), "cifar100": (3, 32, 32)}
TRAIN, TEST = 500, 100
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """(folder, constants) of small data sets in the published formats."""
    folder = tmp_path_factory.mktemp("mirror")
    return folder, small_data.publish(folder, TRAIN, TEST)


@pytest.fixture
def served(published, monkeypatch):
    """A function that lets torchvision's classes find the small data sets at an address, or nowhere."""

    def serve(url):
        for name, own in mirror.at(url, published[1]).items():
            kind = data.DATASETS[name]
            monkeypatch.setattr(kind, "sha256", None)
            for key, value in own.items():
                monkeypatch.setattr(getattr(torchvision.datasets, kind.title), key, value, raising=False)

    monkeypatch.setenv("no_proxy", "*")
    with mirror.serve(published[0]) as url:
        serve(url)
        yield serve


@pytest.fixture
def fetched(monkeypatch):
    """The addresses that torchvision asks for, one after another."""
    calls, fetch = [], torchvision.datasets.utils._urlretrieve
    counted = lambda url, *rest: calls.append(url) or fetch(url, *rest)  # noqa: E731
    monkeypatch.setattr(torchvision.datasets.utils, "_urlretrieve", counted)
    return calls


def source(name, root, **options):
    return data.DATASETS[name](root=str(root), **options)


def packed(published, root, name="mnist"):
    """The archives of a data set in ``root``, as torchvision lays them out."""
    folder = root / (data.DATASETS[name].folder if "mnist" in name else ".")
    shutil.copytree(published[0] / name, folder, dirs_exist_ok=True)
    return folder


def digest(arrays):
    """The identity of images (N, H, W, C) and labels, test before training images, as runs record it."""
    found = hashlib.sha256()
    for images, labels in arrays:
        found.update(repr((len(labels), *images.shape[1:])).encode())
        found.update(np.ascontiguousarray(images).tobytes() + labels.astype("<i8").tobytes())
    return found.hexdigest()


def test_from_nothing_every_data_set_is_downloaded_unpacked_and_then_needs_no_network(
    served, fetched, tmp_path
):
    for name, shape in SHAPES.items():
        number = 100 if name == "cifar100" else 10
        # CIFAR-10's training images lie in five files.
        files = ((TEST, 1), (TRAIN // 5, 5) if name == "cifar10" else (TRAIN, 1))
        arrays = []
        for count, times in files:
            images, labels = small_data.images(count, shape, number)
            images = images[..., None] if "mnist" in name else images.transpose(0, 2, 3, 1)
            arrays.append((np.tile(images, (times, 1, 1, 1)), np.tile(labels, times)))
        raw = source(name, tmp_path / "data").read()
        assert raw.sha256 == digest(arrays) and len(raw.classes) == number
        assert len(fetched) == (4 if "mnist" in name else 1)
        served(NOWHERE)
        assert source(name, tmp_path / "data").read().sha256 == raw.sha256
        served(fetched[0].rpartition(f"/{name}/")[0])
        fetched.clear()


def test_readers_at_once_share_one_download(served, fetched, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(source("mnist", tmp_path).read().sha256))
        for _ in range(3)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found) == 3 and len(set(found)) == 1 and len(fetched) == 4
    assert caplog.text.count(f"downloading MNIST to {tmp_path}") == 1


@pytest.mark.parametrize("name", ["fashion_mnist", "cifar10"])
def test_packed_files_are_unpacked_without_a_network(served, published, fetched, tmp_path, name):
    served(NOWHERE)
    packed(published, tmp_path, name)
    for download in (False, True):
        assert len(source(name, tmp_path, download=download).read().test) == TEST
    assert not fetched


def test_a_damaged_file_beside_its_archive_is_unpacked_again(served, published, tmp_path):
    served(NOWHERE)
    path = packed(published, tmp_path) / small_data.MNIST_FILES[0]
    whole = source("mnist", tmp_path, download=False).read().sha256
    # As left by a process that was killed while it unpacked.
    path.write_bytes(path.read_bytes()[:5000])
    assert source("mnist", tmp_path, download=False).read().sha256 == whole


def test_an_archive_with_another_digest_is_neither_unpacked_nor_replaced(served, published, tmp_path):
    path = packed(published, tmp_path) / f"{small_data.MNIST_FILES[2]}.gz"
    path.write_bytes(b"mine")
    with pytest.raises(DataError, match=rf"^{path} is damaged \(its MD5 sum is not as published\): set"):
        source("mnist", tmp_path, download=False).read()
    assert path.read_bytes() == b"mine" and not path.with_suffix("").exists()


def test_without_a_network_one_line_says_where_to_put_the_files(served, tmp_path):
    served(NOWHERE)
    for name in ("mnist", "cifar10"):
        with pytest.raises(DownloadError) as caught:
            source(name, tmp_path / "new").read()
        message = str(caught.value)
        assert "Connection refused" in message and "\n" not in message
        assert f"put its files into {tmp_path / 'new' / data.DATASETS[name].folder} by hand" in message


@pytest.mark.parametrize(("path", "words"), [("/cut", "corrupted"), ("/nowhere", "HTTP Error 404")])
def test_a_download_that_fails_is_one_line(served, published, tmp_path, path, words):
    with mirror.serve(published[0]) as url:
        served(f"{url}{path}")
        with pytest.raises(DownloadError, match=rf"^cannot download CIFAR10 \(.*{words}.*\): put [^\n]*$"):
            source("cifar10", tmp_path).read()
    with warnings.catch_warnings():
        # torchvision does not close what a server answers with an error.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def test_other_images_of_the_right_number_are_not_taken_for_mnist(served, published, tmp_path, monkeypatch):
    packed(published, tmp_path)
    monkeypatch.undo()
    for path in (tmp_path / MNIST.folder).glob("*.gz"):
        torchvision.datasets.utils.extract_archive(str(path))
        path.unlink()
    with pytest.raises(DataError, match=r"cannot read MNIST in .* \(its images are not those of MNIST\)"):
        source("mnist", tmp_path, download=False).read()


def test_mnist_is_not_taken_for_fashion_mnist(served, published, tmp_path, monkeypatch):
    served(NOWHERE)
    packed(published, tmp_path)
    monkeypatch.setattr(MNIST, "sha256", source("mnist", tmp_path, download=False).read().sha256)
    (tmp_path / MNIST.folder).rename(tmp_path / "raw")
    (tmp_path / "FashionMNIST").mkdir()
    (tmp_path / "raw").rename(tmp_path / "FashionMNIST" / "raw")
    for download in (False, True):
        with pytest.raises(DataError, match=r"FashionMNIST.* \(the images there are those of MNIST\)"):
            source("fashion_mnist", tmp_path, download=download).read()


def test_the_timeout_is_set_for_the_download_alone(tmp_path, monkeypatch):
    times = []
    before = socket.getdefaulttimeout()

    def fetch():
        times.append(socket.getdefaulttimeout())
        raise OSError("no network")

    def read():
        raise ValueError("no files")

    with pytest.raises(DataError, match="no network"):
        room.obtained("X", tmp_path, tmp_path, read, fetch)
    assert times == [60] and socket.getdefaulttimeout() == before


class Hostile:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return Path.touch, (self.marker,)


def test_a_file_with_another_digest_is_never_unpickled(served, published, tmp_path):
    served(NOWHERE)
    packed(published, tmp_path, "cifar10")
    source("cifar10", tmp_path, download=False).read()
    (tmp_path / "cifar-10-python.tar.gz").unlink()
    marker = tmp_path / "marker"
    for name in ("data_batch_3", "batches.meta"):
        path = tmp_path / CIFAR10.folder / name
        whole = path.read_bytes()
        path.write_bytes(pickle.dumps({"data": Hostile(marker)}))
        with pytest.raises(DataError, match=r"cannot read CIFAR10 in .*cifar-10-batches-py \(.*corrupted\)"):
            source("cifar10", tmp_path, download=False).read()
        path.write_bytes(whole)
    assert not marker.exists()


@pytest.fixture(scope="module")
def mnist():
    root = os.environ.get("CNNPOOL_DATA")
    if not root or not (Path(root) / "MNIST" / "raw").exists():
        pytest.skip("CNNPOOL_DATA names no folder with MNIST/raw")
    return data.build("mnist", root=root, download=False, val_size=0)


def test_mnist_has_its_known_counts_and_moments_and_begins_with_a_five(mnist):
    assert (len(mnist.train), len(mnist.val), len(mnist.test)) == (60_000, 0, 10_000)
    train = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert mnist.train.labels.bincount().tolist() == train
    assert mnist.test.labels.bincount().tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert (round(mnist.mean[0], 4), round(mnist.std[0], 4)) == (0.1307, 0.3081)
    assert mnist.sha256 == MNIST.sha256 and mnist.classes == tuple("0123456789")
    assert mnist.train.labels[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert mnist.train.images[0, 0].to(torch.int64).sum() == 27525
