import hashlib
import io
import pickle
import tarfile
from contextlib import ExitStack
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from cnnpool.data import CIFAR10, CIFAR100, DataError
from cnnpool.data.cifar10 import load_arrays

RNG = np.random.default_rng(0)


def old_pickle(value) -> bytes:
    """As Python 2 and an old NumPy wrote it: protocol 2, and the array's module by its former name."""
    return pickle.dumps(value, protocol=2).replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def write(folder: Path, contents: dict) -> dict[str, str]:
    folder.mkdir(parents=True)
    sums = {}
    for name, value in contents.items():
        packed = old_pickle(value)
        (folder / name).write_bytes(packed)
        sums[name] = hashlib.md5(packed).hexdigest()
    return sums


@pytest.fixture
def tiny(tmp_path):
    batches = {
        name: {"data": RNG.integers(0, 256, (10, 3072), np.uint8), "labels": list(range(10)), "x": b"y"}
        for name in (*CIFAR10.train, *CIFAR10.test)
    }
    meta: ClassVar = {"batches.meta": {"label_names": [f"c{i}" for i in range(10)]}}
    sums = write(tmp_path / CIFAR10.folder, {**batches, **meta})

    class Tiny(CIFAR10):
        train: ClassVar = {name: sums[name] for name in CIFAR10.train}
        test: ClassVar = {name: sums[name] for name in CIFAR10.test}
        meta: ClassVar = {name: sums[name] for name in CIFAR10.meta}

    return Tiny(root=str(tmp_path), download=False), batches, tmp_path / CIFAR10.folder


def test_images_and_labels_come_as_they_were_written(tiny):
    source, batches, _ = tiny
    raw = source.read()
    planes = np.concatenate([batches[name]["data"] for name in CIFAR10.train]).reshape(50, 3, 32, 32)
    np.testing.assert_array_equal(raw.train.images.numpy(), planes)
    np.testing.assert_array_equal(
        raw.test.images.numpy(), batches["test_batch"]["data"].reshape(10, 3, 32, 32)
    )
    assert raw.train.labels.tolist() == list(range(10)) * 5
    assert raw.classes == tuple(f"c{i}" for i in range(10))


def test_cifar100_reads_the_fine_labels(tmp_path):
    part = {"data": RNG.integers(0, 256, (100, 3072), np.uint8), "coarse_labels": [0] * 100}
    part["fine_labels"] = list(range(100))
    names = {"fine_label_names": [f"f{i}" for i in range(100)], "coarse_label_names": ["c"]}
    sums = write(tmp_path / CIFAR100.folder, {"train": part, "test": part, "meta": names})

    class Tiny(CIFAR100):
        train: ClassVar = {"train": sums["train"]}
        test: ClassVar = {"test": sums["test"]}
        meta: ClassVar = {"meta": sums["meta"]}

    raw = Tiny(root=str(tmp_path), download=False).read()
    assert raw.train.labels.tolist() == list(range(100))
    assert raw.classes[99] == "f99"


def test_a_changed_byte_is_found_before_anything_is_unpickled(tiny):
    source, _, folder = tiny
    path = folder / "data_batch_3"
    changed = bytearray(path.read_bytes())
    changed[-10] ^= 1
    path.write_bytes(changed)
    with pytest.raises(DataError, match=r"data_batch_3 is damaged .*delete it"):
        source.read()


def test_a_missing_file_is_named_with_the_remedies(tiny):
    source, _, folder = tiny
    (folder / "test_batch").unlink()
    with pytest.raises(DataError, match=r"test_batch .*data.download=true.*data.root=FOLDER"):
        source.read()


class Hostile:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_a_hostile_pickle_is_refused_and_runs_nothing(tmp_path, protocol):
    marker = tmp_path / "marker"
    for hostile in (Hostile(Path.touch, marker), Hostile(eval, f"open({str(marker)!r}, 'w')")):
        with pytest.raises(DataError, match=r"x is not a pickle of arrays .*it asks for"):
            load_arrays(pickle.dumps({"data": hostile}, protocol=protocol), Path("x"))
    assert not marker.exists()


@pytest.mark.parametrize("length", [0, 1, 10, 100, 1000])
def test_a_cut_pickle_is_refused(length):
    whole = old_pickle({"data": np.zeros((4, 3072), np.uint8)})
    with pytest.raises(DataError, match="x is not a pickle of arrays"):
        load_arrays(whole[:length], Path("x"))


def test_flags_of_old_array_pickles_do_not_warn():
    # Warnings are errors here: NumPy 2.4 warns of align=0 as old files have it.
    array = load_arrays(old_pickle(np.arange(6, dtype=np.uint8).reshape(2, 3)), Path("x"))
    assert array.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.fixture
def archived(tiny, mirror, tmp_path):
    """A function that serves files as CIFAR-10's archive and gives the class that downloads it."""
    stack = ExitStack()

    def serve(files):
        folder = tmp_path / "mirror"
        folder.mkdir()
        with tarfile.open(folder / CIFAR10.archive, "w:gz") as tar:
            for name, content in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
        url = stack.enter_context(mirror.serve(folder))

        class Mirrored(type(tiny[0])):
            mirrors = (f"{url}/",)
            archive_md5 = hashlib.md5((folder / CIFAR10.archive).read_bytes()).hexdigest()

        return Mirrored

    with stack:
        yield serve


def files_of(folder):
    return {f"{folder.name}/{path.name}": path.read_bytes() for path in folder.iterdir()}


def test_a_downloaded_archive_gives_its_own_files_and_no_others(tiny, archived, tmp_path):
    source = archived({**files_of(tiny[2]), "../evil": b"x", "/evil": b"x", "more/evil": b"x"})
    raw = source(root=str(tmp_path / "new")).read()
    assert raw.sha256 == tiny[0].read().sha256
    assert not list(tmp_path.rglob("evil"))


def test_an_archive_that_lacks_a_file_is_refused(tiny, archived, tmp_path):
    files = files_of(tiny[2])
    del files[f"{CIFAR10.folder}/data_batch_4"]
    with pytest.raises(DataError, match=r"cannot unpack .*data_batch_4.*delete it and run again"):
        archived(files)(root=str(tmp_path / "new")).read()
