"""Images that are not held in memory: the same bits, from a file or decoded anew."""

import itertools
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from cnnpool import data
from cnnpool.data import DataError, ImageFolder, cache
from cnnpool.data.images import Anew
from cnnpool.data.rows import File
from cnnpool.fit.probe_batch import sample

KINDS = {"memory": type(None), "file": File, "anew": Anew}
LAYOUTS = {"two parts": ("train", "test"), "three parts": ("train", "val", "test"), "classes": ("",)}


def fill(root: Path, parts: tuple[str, ...], each: int = 9) -> Path:
    rng = np.random.default_rng(0)
    for part, name, i in itertools.product(parts, ("ant", "bee"), range(each)):
        path = root / part / name / f"{i}.{'png' if i % 2 else 'jpg'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (9 + i, 14, 3), np.uint8)).save(path)
    return root


def full(path):
    return shutil._ntuple_diskusage(10, 10, 0)


@pytest.fixture(params=LAYOUTS)
def root(tmp_path, request):
    return fill(tmp_path / "images", LAYOUTS[request.param])


@pytest.fixture
def build(monkeypatch):
    """``build(root, kind, **options)``: a data set whose images are read as ``kind`` says."""

    def build(root, kind, **options):
        options = {"batch_size": 4, "eval_batch_size": 5, "val_size": 4, "size": 8, **options}
        with monkeypatch.context() as patch:
            if kind == "anew":
                patch.setattr(cache.shutil, "disk_usage", full)
                for kept in root.glob(".cnnpool-cache/*.images"):
                    kept.unlink()
            dataset = data.build("image_folder", root=str(root), stream=kind != "memory", seed=3, **options)
        for split in (dataset.train, dataset.test):
            assert type(getattr(split.rows, "store", None)) is KINDS[kind]
        return dataset

    return build


def epochs(batches, count: int = 2) -> list[torch.Tensor]:
    found = []
    for epoch in range(count):
        batches.sampler.set_epoch(epoch)
        found += [tensor for batch in batches for tensor in batch]
    return found


def same(first, second) -> bool:
    return len(first) == len(second) and all(map(torch.equal, first, second))


@pytest.mark.parametrize("kind", ["file", "anew"])
def test_streamed_images_give_the_bits_of_those_in_memory(root, build, kind):
    options = {"crop": 2, "shift": 1, "flip": True}
    expected, streamed = build(root, "memory", **options), build(root, kind, **options)
    # Twice, for the second time the file and what is remembered of it are there.
    for found in (streamed, build(root, kind, **options)):
        assert found.sha256 == expected.sha256
        assert (found.mean, found.std, found.counts) == (expected.mean, expected.std, expected.counts)
        assert (found.size, found.in_channels) == (expected.size, expected.in_channels)
    for shard in ((0, 1), (0, 2), (1, 2)):
        for name in ("train_loader", "val_loader", "test_loader"):
            own, other = (getattr(each, name)(shard=shard) for each in (expected, streamed))
            assert same(epochs(own), epochs(other))
    for split in ("train", "val", "test"):
        own, other = (sample(each, getattr(each, split)) for each in (expected, streamed))
        assert same(own, other)


@pytest.mark.parametrize("kind", ["file", "anew"])
def test_limit_and_identity_are_those_in_memory(root, build, kind):
    expected, streamed = (build(root, each, limit=6) for each in ("memory", kind))
    assert len(streamed.train) == 6 and streamed.sha256 == expected.sha256
    assert torch.equal(streamed.train.images, expected.train.images)
    assert (streamed.mean, streamed.std) == (expected.mean, expected.std)


@pytest.mark.parametrize("kind", ["file", "anew"])
@pytest.mark.parametrize("stop", [0, 1, 3])
def test_a_streamed_run_resumed_after_any_batch_sees_exactly_the_rest(tmp_path, build, kind, stop):
    dataset = build(fill(tmp_path / "images", ("train", "test")), kind, flip=True, crop=1, batch_size=3)
    whole = dataset.train_loader()
    whole.sampler.set_epoch(1)
    expected = list(whole)
    first = dataset.train_loader()
    first.sampler.set_epoch(1)
    # Batches that were read before they are asked for are not counted as seen.
    list(itertools.islice(first, stop))
    second = dataset.train_loader()
    second.load_state_dict(first.state_dict())
    rest = list(second)
    assert len(rest) == len(expected) - stop
    assert all(same(own, other) for own, other in zip(rest, expected[stop:], strict=True))


def test_unreadable_images_are_left_out_of_a_file_as_of_memory(tmp_path, build):
    root = fill(tmp_path / "images", ("train", "test"))
    for path in (root / "train" / "ant" / "0.jpg", root / "test" / "bee" / "8.jpg"):
        path.write_bytes(path.read_bytes()[:100])
    found = {kind: build(root, kind, skip_unreadable=True) for kind in KINDS}
    assert len({each.sha256 for each in found.values()}) == 1
    assert {len(each.skipped) for each in found.values()} == {2}
    assert same(*(epochs(found[kind].train_loader()) for kind in ("memory", "file")))
    assert same(*(epochs(found[kind].train_loader()) for kind in ("memory", "anew")))


def read(root, **options):
    return ImageFolder(root=str(root), size=8, **options).read()


NBYTES = 36 * 8 * 8 * 3


def test_more_than_a_quarter_of_the_free_memory_is_read_from_disk(tmp_path, monkeypatch):
    root = fill(tmp_path / "images", ("train", "test"))
    monkeypatch.setattr("cnnpool.data.cache.free_memory", lambda: 4 * NBYTES)
    assert read(root).in_memory and not read(root, stream=True).in_memory
    monkeypatch.setattr("cnnpool.data.cache.free_memory", lambda: 4 * NBYTES - 1)
    streamed = read(root)
    assert not streamed.in_memory and read(root, stream=False).in_memory
    path = root / ".cnnpool-cache" / "3x8.images"
    assert streamed.notes[-1] == f"not held in memory (6.4e-06 GiB): each batch is read from {path}"
    monkeypatch.setattr("cnnpool.data.cache.free_memory", lambda: None)
    assert read(root).in_memory


def test_without_room_on_disk_images_are_held_in_memory_while_they_fit(tmp_path, monkeypatch, caplog):
    root = fill(tmp_path / "images", ("train", "test"))
    monkeypatch.setattr(cache.shutil, "disk_usage", full)
    monkeypatch.setattr("cnnpool.data.cache.free_memory", lambda: 2 * NBYTES)
    assert read(root).in_memory
    assert "cannot keep decoded images in" in caplog.text and "No space left on device" in caplog.text
    assert not list(root.glob(".cnnpool-cache/*.images*[!k]"))
    monkeypatch.setattr("cnnpool.data.cache.free_memory", lambda: 2 * NBYTES - 1)
    assert isinstance((raw := read(root)).train.rows.store, Anew)
    assert raw.notes[-1] == (
        "neither memory nor disk has room for 6.4e-06 GiB: each batch is decoded from its files"
    )
    with pytest.raises(DataError, match=r"36 images of 8x8 take 0.0 GiB .*by data.stream=auto"):
        read(root, stream=False)


def test_a_file_that_changes_while_it_is_decoded_anew_is_named(tmp_path, build):
    root = fill(tmp_path / "images", ("train", "test"))
    dataset = build(root, "anew")
    os.utime(root / "test" / "bee" / "8.jpg", (0, 0))
    with pytest.raises(DataError, match=r"test/bee/8.jpg was changed while it was in use: run again"):
        list(dataset.test_loader())
    (root / "test" / "ant" / "0.jpg").unlink()
    with pytest.raises(DataError, match=r"cannot read .*ant/0.jpg any more \(No such file"):
        list(dataset.test_loader())


def test_a_cache_that_is_made_anew_meanwhile_changes_nothing_for_a_run(tmp_path, build):
    root = fill(tmp_path / "images", ("train", "test"))
    dataset = build(root, "file")
    expected = epochs(dataset.train_loader())
    (root / "train" / "ant" / "9.jpg").write_bytes((root / "train" / "ant" / "8.jpg").read_bytes())
    assert build(root, "file").sha256 != dataset.sha256
    assert same(epochs(dataset.train_loader()), expected)


def test_reading_leaves_the_global_generator_and_the_main_threads_warnings_alone(tmp_path, build):
    dataset = build(fill(tmp_path / "images", ("train", "test")), "anew", flip=True)
    state = torch.get_rng_state()
    with pytest.warns(UserWarning, match="mine") as caught:
        for _ in dataset.train_loader():
            warnings.warn("mine", stacklevel=1)
    assert len(caught) == len(dataset.train_loader())
    assert torch.equal(torch.get_rng_state(), state)


def test_batches_of_streamed_images_are_made_where_they_are_needed(tmp_path, build):
    dataset = build(fill(tmp_path / "images", ("train", "test")), "file", flip=True)
    for keep in (True, False):
        batches = dataset.train_loader()
        batches.dataset.move(torch.device("meta"), images=keep)
        for images, labels in batches:
            assert images.device.type == labels.device.type == "meta"
            assert images.shape == (4, 3, 8, 8) and images.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gets_the_batches_of_a_cpu(tmp_path, build):
    root = fill(tmp_path / "images", ("train", "test"))
    expected = epochs(build(root, "memory", flip=True, crop=2).train_loader())
    for kind, keep in itertools.product(KINDS, (True, False)):
        moved = build(root, kind, flip=True, crop=2).train_loader()
        moved.dataset.move(torch.device("cuda"), images=keep)
        for own, other in zip(epochs(moved), expected, strict=True):
            assert own.device.type == "cuda"
            torch.testing.assert_close(own.cpu(), other, rtol=1e-6, atol=1e-6)


CHILD = """
import resource, sys
from cnnpool import data
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
options = {"val_size": 0.1, "size": 224, "batch_size": 16, "eval_batch_size": 16, "crop": 8, "flip": True}
before = peak()
# Once to decode, once to read what was decoded: 172 MiB of pixels.
for _ in range(2):
    dataset = data.build("image_folder", root=sys.argv[1], stream=True, **options)
    for batches in (dataset.train_loader(), dataset.val_loader(), dataset.test_loader()):
        for batch in batches:
            pass
    print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has another unit elsewhere")
def test_memory_does_not_grow_with_the_images(tmp_path):
    own = np.random.default_rng(0).integers(0, 256, (28, 28, 3), np.uint8)
    for name in ("ant", "bee"):
        folder = tmp_path / name
        folder.mkdir()
        Image.fromarray(own).resize((224, 224)).save(folder / "0.jpg")
        for i in range(1, 600):
            os.link(folder / "0.jpg", folder / f"{i}.jpg")
    environment = {**os.environ, "PYTHONPATH": str(Path(data.__file__).parents[2]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert len(used := done.stdout.split()) == 2 and max(map(int, used)) < 110
