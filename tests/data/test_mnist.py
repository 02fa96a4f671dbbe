import gzip
import hashlib
import os
import struct
import subprocess
import sys
import threading
import time
import types
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch

from cnnpool import data
from cnnpool.data import MNIST, DataError
from cnnpool.data.mnist import parse_idx

NAMES = tuple(MNIST.md5)
RNG = np.random.default_rng(0)
ARRAYS = {
    NAMES[0]: RNG.integers(0, 256, (30, 28, 28), np.uint8),
    NAMES[1]: np.arange(30, dtype=np.uint8) % 10,
    NAMES[2]: RNG.integers(0, 256, (10, 28, 28), np.uint8),
    NAMES[3]: np.arange(10, dtype=np.uint8),
}


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">BBBB{array.ndim}i", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


PACKED = {name: gzip.compress(idx(array), mtime=0) for name, array in ARRAYS.items()}


class Tiny(MNIST):
    """Forty made-up images in MNIST's format, with sums of their own."""

    md5: ClassVar = {name: hashlib.md5(packed).hexdigest() for name, packed in PACKED.items()}
    sha256 = None


def write(root: Path, packed: bool = True) -> Path:
    raw = root / "MNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for name, array in ARRAYS.items():
        (raw / (f"{name}.gz" if packed else name)).write_bytes(PACKED[name] if packed else idx(array))
    return raw


def read(root: Path, download: bool = False):
    return Tiny(root=str(root), download=download).read()


@pytest.mark.parametrize("packed", [True, False])
def test_images_and_labels_come_as_they_were_written(tmp_path, packed):
    write(tmp_path, packed)
    raw = read(tmp_path)
    for split, (images, labels) in ((raw.train, NAMES[:2]), (raw.test, NAMES[2:])):
        np.testing.assert_array_equal(split.images[:, 0].numpy(), ARRAYS[images])
        assert split.labels.tolist() == ARRAYS[labels].tolist()


def test_torchvision_and_scikit_learn_are_not_imported_to_read_files(tmp_path):
    write(tmp_path, packed=False)
    code = (
        "import sys; from cnnpool.data import MNIST, Digits\n"
        "class Tiny(MNIST): sha256 = None\n"
        f"assert len(Tiny(root={str(tmp_path)!r}, download=True).read().train) == 30\n"
        "assert len(Digits().read().test) == 360\n"
        "sys.exit(bool({'torchvision', 'sklearn', 'lightning', 'hydra'} & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(data.__file__).parents[2])}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_changed_byte_in_a_packed_file_is_found(tmp_path, name):
    path = write(tmp_path) / f"{name}.gz"
    changed = bytearray(PACKED[name])
    changed[len(changed) // 2] ^= 1
    path.write_bytes(changed)
    with pytest.raises(DataError, match=rf"{name}.gz is damaged .*delete it and run again"):
        read(tmp_path)


@pytest.mark.parametrize(
    "change", [lambda b: b[:-1], lambda b: b + b"x", lambda b: b"", lambda b: b[:3], lambda b: b[:9]]
)
def test_an_unpacked_file_cut_or_with_more_is_refused(tmp_path, change):
    path = write(tmp_path, packed=False) / NAMES[0]
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(DataError, match=rf"{NAMES[0]} is no whole idx file .*delete it"):
        read(tmp_path)


def test_random_bytes_of_the_right_length_are_not_taken_for_mnist(tmp_path):
    write(tmp_path, packed=False)

    class Pinned(Tiny):
        sha256 = read(tmp_path).sha256

    assert len(Pinned(root=str(tmp_path), download=False).read().train) == 30
    path = tmp_path / "MNIST" / "raw" / NAMES[0]
    path.write_bytes(idx(ARRAYS[NAMES[0]][::-1].copy()))
    with pytest.raises(DataError, match="are not MNIST: delete the folder"):
        Pinned(root=str(tmp_path), download=False).read()


def test_a_label_out_of_range_is_refused(tmp_path):
    raw = write(tmp_path, packed=False)
    (raw / NAMES[3]).write_bytes(idx(np.array([*range(9), 77], np.uint8)))
    with pytest.raises(DataError, match=rf"{NAMES[3]} holds label 77"):
        read(tmp_path)


def test_unequal_counts_are_refused(tmp_path):
    raw = write(tmp_path, packed=False)
    (raw / NAMES[1]).write_bytes(idx(ARRAYS[NAMES[1]][:-1]))
    with pytest.raises(DataError, match=r"labels-idx1-ubyte and its images do not fit \(\(29,\)"):
        read(tmp_path)


def test_a_missing_file_is_named_with_the_remedies(tmp_path):
    (write(tmp_path) / f"{NAMES[2]}.gz").unlink()
    with pytest.raises(DataError, match=rf"{NAMES[2]}.gz .*data.download=true.*data.root=FOLDER"):
        read(tmp_path)
    with pytest.raises(DataError, match="cannot read"):
        read(tmp_path / "nowhere")


def test_an_idx_file_of_another_type_is_refused():
    with pytest.raises(DataError, match="x is no whole idx file"):
        parse_idx(struct.pack(">BBBBi", 0, 0, 0x0D, 1, 1) + b"\0" * 4, Path("x"))


def torchvision_that(download) -> types.ModuleType:
    module = types.ModuleType("torchvision")
    module.datasets = types.SimpleNamespace(MNIST=download)
    return module


def test_without_a_network_one_line_says_where_to_put_the_files(tmp_path, monkeypatch):
    def fail(root, train, download):
        raise RuntimeError("Error downloading x:\nTried y, got:\nNo route")

    monkeypatch.setitem(sys.modules, "torchvision", torchvision_that(fail))
    with pytest.raises(DataError) as caught:
        read(tmp_path / "new", download=True)
    message = str(caught.value)
    assert "No route" in message and str(tmp_path / "new" / "MNIST" / "raw") in message
    assert "\n" not in message


def test_processes_download_in_turns_and_only_what_is_missing(tmp_path, monkeypatch):
    running, calls = [], []

    def download(root, train, download):
        assert not running
        running.append(1)
        calls.append(root)
        time.sleep(0.05)
        write(Path(root))
        running.pop()

    monkeypatch.setitem(sys.modules, "torchvision", torchvision_that(download))
    results = []
    threads = [threading.Thread(target=lambda: results.append(read(tmp_path, True))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 3 and len({raw.sha256 for raw in results}) == 1
    done = len(calls)
    read(tmp_path, download=True)
    assert len(calls) == done


def test_a_download_that_was_cut_off_is_fetched_again(tmp_path, monkeypatch):
    path = write(tmp_path) / f"{NAMES[0]}.gz"
    path.write_bytes(PACKED[NAMES[0]][:100])
    module = torchvision_that(lambda root, train, download: write(Path(root)))
    monkeypatch.setitem(sys.modules, "torchvision", module)
    assert len(read(tmp_path, download=True).train) == 30


def test_files_that_stay_damaged_after_a_download_are_named(tmp_path, monkeypatch):
    (write(tmp_path) / f"{NAMES[0]}.gz").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "torchvision", torchvision_that(lambda root, train, download: None))
    with pytest.raises(DataError, match=rf"{NAMES[0]}.gz is damaged"):
        read(tmp_path, download=True)


@pytest.fixture(scope="module")
def mnist():
    root = os.environ.get("CNNPOOL_DATA")
    if not root or not (Path(root) / "MNIST" / "raw").exists():
        pytest.skip("CNNPOOL_DATA names no folder with MNIST/raw")
    return data.build("mnist", root=root, download=False, val_size=0)


def test_mnist_has_its_known_counts(mnist):
    assert (len(mnist.train), len(mnist.val), len(mnist.test)) == (60_000, 0, 10_000)
    train = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert mnist.train.labels.bincount().tolist() == train
    assert mnist.test.labels.bincount().tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def test_mnist_has_its_known_mean_and_deviation(mnist):
    assert round(mnist.mean[0], 4) == 0.1307
    assert round(mnist.std[0], 4) == 0.3081
    assert mnist.sha256 == MNIST.sha256


def test_mnist_begins_with_a_five(mnist):
    assert mnist.train.labels[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert mnist.train.images[0, 0].to(torch.int64).sum() == 27525
