"""Images that are not held in memory: the same bits, read from a file."""

import errno
import itertools
import logging
import pickle
import shutil
from pathlib import Path

import pytest
import torch
from filelock import FileLock
from pictures import noise, save

from cnnpool import data
from cnnpool.data import DataError, ImageFolder, cache
from cnnpool.fit.results import sample

LAYOUTS = {"two parts": ("train", "test"), "three parts": ("train", "val", "test"), "classes": ("",)}


def fill(root: Path, parts: tuple[str, ...] = ("train", "test"), each: int = 9) -> Path:
    for part, name, i in itertools.product(parts, ("ant", "bee"), range(each)):
        save(root / part / name / f"{i}.{'png' if i % 2 else 'jpg'}", noise(9 + i, 14, 3))
    return root


@pytest.fixture(params=LAYOUTS)
def root(tmp_path, request):
    return fill(tmp_path / "images", LAYOUTS[request.param])


def build(root, stream, **options):
    options = {"batch_size": 4, "eval_batch_size": 5, "val_size": 4, "size": 8, **options}
    dataset = data.build("image_folder", root=str(root), stream=stream, seed=3, **options)
    assert dataset.train.rows.in_memory == dataset.test.rows.in_memory != stream
    return dataset


def epochs(batches, count: int = 2) -> list[torch.Tensor]:
    found = []
    for epoch in range(count):
        batches.sampler.set_epoch(epoch)
        found += [tensor for batch in batches for tensor in batch]
    return found


def same(first, second) -> bool:
    return len(first) == len(second) and all(map(torch.equal, first, second))


def test_streamed_images_give_the_bits_of_those_in_memory(root):
    options = {"crop": 2, "shift": 1, "flip": True, "limit": 6}
    state = torch.get_rng_state()
    expected, streamed = build(root, False, **options), build(root, True, **options)
    # Twice, for the second time the file and what is remembered of it are there.
    for found in (streamed, build(root, True, **options)):
        assert found.sha256 == expected.sha256
        assert (found.mean, found.std, found.counts) == (expected.mean, expected.std, expected.counts)
        assert (found.size, found.in_channels) == (expected.size, expected.in_channels)
    for shard in ((0, 1), (0, 2), (1, 2)):
        own, other = (each.train_loader(shard=shard) for each in (expected, streamed))
        assert same(epochs(own), epochs(other))
        assert (own.dataset.ahead(4), other.dataset.ahead(4)) == (0, 3)
        for split in ("val", "test"):
            plain = (each.plain_loader(getattr(each, split), shard=shard) for each in (expected, streamed))
            assert same(*map(epochs, plain))
    for split in ("train", "val", "test"):
        own, other = (sample(each, getattr(each, split)) for each in (expected, streamed))
        assert same(own, other)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("stop", [0, 1, 3])
def test_a_streamed_run_resumed_after_any_batch_sees_exactly_the_rest(tmp_path, stop):
    dataset = build(fill(tmp_path / "images"), True, flip=True, crop=1, batch_size=3)
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


def read(root, **options):
    return ImageFolder(root=str(root), size=8, **options).read()


NBYTES = 36 * 8 * 8 * 3


def test_more_than_a_quarter_of_the_free_memory_is_read_from_disk(tmp_path, monkeypatch):
    root = fill(tmp_path / "images")
    monkeypatch.setattr("cnnpool.data.cache.free_memory", lambda: 4 * NBYTES)
    assert read(root).in_memory and not read(root, stream=True).in_memory
    monkeypatch.setattr("cnnpool.data.cache.free_memory", lambda: 4 * NBYTES - 1)
    streamed = read(root)
    assert not streamed.in_memory and read(root, stream=False).in_memory
    path = root / ".cnnpool-cache" / "3x8.images"
    assert streamed.notes[-1] == f"not held in memory (6.4e-06 GiB): each batch is read from {path}"
    monkeypatch.setattr("cnnpool.data.cache.free_memory", lambda: 2 * NBYTES - 1)
    with pytest.raises(DataError, match=r"the images take 0.0 GiB of memory .*by data.stream=auto"):
        read(root, stream=False)
    monkeypatch.setattr("cnnpool.data.cache.free_memory", lambda: None)
    assert read(root).in_memory


def test_without_room_on_disk_images_are_held_in_memory_if_they_fit_there(tmp_path, monkeypatch, caplog):
    root = fill(tmp_path / "images")
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 10, 0))
    monkeypatch.setattr("cnnpool.data.cache.free_memory", lambda: 2 * NBYTES)
    for stream in ("auto", True):
        assert read(root, stream=stream).in_memory
    assert "cannot keep decoded images in" in caplog.text and "No space left on device" in caplog.text
    assert not list(root.glob(".cnnpool-cache/*.images*[!k]"))
    monkeypatch.setattr("cnnpool.data.cache.free_memory", lambda: 2 * NBYTES - 1)
    with pytest.raises(DataError, match=r"the images take 0.0 GiB of memory"):
        read(root)


def test_progress_counts_the_images(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    for name in ("SILENT_S", "LINES_S"):
        monkeypatch.setattr(f"cnnpool.system.progress.{name}", 0.0)
    read(fill(tmp_path / "images"))
    for line in ("looking at images: 36 of 36 files (100 %)", "decoding: 36 of 36 images (100 %)"):
        assert line in caplog.text


def test_a_disk_that_fills_up_while_images_are_decoded_is_one_line(tmp_path, monkeypatch):
    def full(path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cache, "File", full)
    root = fill(tmp_path / "images")
    with pytest.raises(DataError, match=r"cannot write .*3x8.images.* \(No space left on dev") as caught:
        read(root)
    assert "\n" not in str(caught.value)
    with FileLock(root / ".cnnpool-cache" / "3x8.images.lock", timeout=0) as lock:
        assert lock.is_locked
    monkeypatch.undo()
    # The remedy that it names.
    assert f"make {root / '.cnnpool-cache'} a link to a folder elsewhere" in str(caught.value)
    (root / ".cnnpool-cache").rename(tmp_path / "elsewhere")
    (root / ".cnnpool-cache").symlink_to(tmp_path / "elsewhere")
    read(root)
    assert (tmp_path / "elsewhere" / "3x8.images").is_file()


def test_a_cache_that_is_made_anew_meanwhile_changes_nothing_for_a_run(tmp_path):
    root = fill(tmp_path / "images")
    dataset = build(root, True)
    expected = epochs(dataset.train_loader())
    (root / "train" / "ant" / "9.jpg").write_bytes((root / "train" / "ant" / "8.jpg").read_bytes())
    sent = pickle.dumps(dataset.train.rows)
    assert torch.equal(pickle.loads(sent).whole(), dataset.train.pixels)
    assert build(root, True).sha256 != dataset.sha256
    assert same(epochs(dataset.train_loader()), expected)
    # Another process reads no other images.
    with pytest.raises(DataError, match=r"3x8\.images was changed by another program: run again"):
        pickle.loads(sent)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gets_the_batches_of_a_cpu(tmp_path):
    root = fill(tmp_path / "images")
    expected = epochs(build(root, False, flip=True, crop=2).train_loader())
    for stream, keep in itertools.product((False, True), (True, False)):
        moved = build(root, stream, flip=True, crop=2).train_loader()
        moved.dataset.move(torch.device("cuda"), images=keep)
        for own, other in zip(epochs(moved), expected, strict=True):
            assert own.device.type == "cuda"
            torch.testing.assert_close(own.cpu(), other, rtol=1e-6, atol=1e-6)
