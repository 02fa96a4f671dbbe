import gzip
import hashlib
import os
import struct
import subprocess
import sys
import threading
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
    with pytest.raises(DataError, match=rf"{NAMES[0]} is not a complete idx file .*delete it"):
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
    with pytest.raises(DataError, match="x is not a complete idx file"):
        parse_idx(struct.pack(">BBBBi", 0, 0, 0x0D, 1, 1) + b"\0" * 4, Path("x"))


@pytest.fixture
def served(mirror, tmp_path):
    """(class, folder): ``Tiny`` with a mirror that serves the files of the folder."""
    write(tmp_path / "mirror")
    folder = tmp_path / "mirror" / "MNIST" / "raw"
    with mirror.serve(folder) as url:

        class Mirrored(Tiny):
            mirrors = (f"{url}/",)

        yield Mirrored, folder


def test_without_a_network_one_line_says_where_to_put_the_files(tmp_path):
    class Unreachable(Tiny):
        mirrors = ("http://127.0.0.1:1/", "http://127.0.0.1:2/")

    with pytest.raises(DataError) as caught:
        Unreachable(root=str(tmp_path / "new")).read()
    message = str(caught.value)
    assert message.count("Connection refused") == 2 and str(tmp_path / "new" / "MNIST" / "raw") in message
    assert "\n" not in message


def test_a_folder_that_cannot_be_made_is_named(tmp_path, served):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"cannot download MNIST .*file.*by hand"):
        served[0](root=str(tmp_path / "file" / "below")).read()


def test_the_next_mirror_is_asked_if_one_lacks_a_file_or_has_another(tmp_path, mirror, served):
    source, _ = served
    other = tmp_path / "other"
    other.mkdir()
    (other / f"{NAMES[0]}.gz").write_bytes(b"something else")
    with mirror.serve(other) as url:

        class Second(source):
            mirrors = (f"{url}/", *source.mirrors)

        raw = Second(root=str(tmp_path / "new")).read()
    assert len(raw.train) == 30
    assert not list((tmp_path / "new").rglob("*.part"))


def test_readers_at_once_share_one_download_and_leave_what_is_there(tmp_path, served, caplog):
    source, _ = served
    caplog.set_level("INFO")
    results = []

    def read_it():
        results.append(source(root=str(tmp_path)).read())

    threads = [threading.Thread(target=read_it) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 3 and len({raw.sha256 for raw in results}) == 1
    assert len([line for line in caplog.messages if line.startswith("downloading")]) == len(NAMES)
    caplog.clear()
    (tmp_path / "MNIST" / "raw" / f"{NAMES[3]}.gz").unlink()
    read_it()
    (line,) = caplog.messages
    assert NAMES[3] in line


def test_a_missing_file_is_downloaded_beside_unpacked_ones(tmp_path, served, caplog):
    caplog.set_level("INFO")
    (write(tmp_path, packed=False) / NAMES[1]).unlink()
    assert len(served[0](root=str(tmp_path)).read().train) == 30
    (line,) = caplog.messages
    assert NAMES[1] in line


def test_a_download_that_was_cut_off_is_fetched_again(tmp_path, served):
    path = write(tmp_path) / f"{NAMES[0]}.gz"
    path.write_bytes(PACKED[NAMES[0]][:100])
    assert len(served[0](root=str(tmp_path)).read().train) == 30


def test_a_file_that_is_damaged_at_its_source_too_is_named_and_nothing_replaced(tmp_path, served):
    source, folder = served
    (folder / f"{NAMES[0]}.gz").write_bytes(b"")
    path = write(tmp_path) / f"{NAMES[0]}.gz"
    path.write_bytes(b"mine")
    with pytest.raises(DataError, match=rf"{NAMES[0]}.gz: its MD5 is not "):
        source(root=str(tmp_path)).read()
    assert path.read_bytes() == b"mine"


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
