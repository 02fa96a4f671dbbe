import logging
import os
import time
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from multiprocessing.context import ForkProcess
from pathlib import Path

import numpy as np
import pytest
import torch

from cnnpool.data import Raw, Split, cache, from_pixels
from cnnpool.data.errors import DataError
from cnnpool.data.rows import File, Stored, sums_of
from cnnpool.system.atomic import beside

# Python 3.12 and later say so of a fork below pytest-xdist.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
RNG = np.random.default_rng(0)


def raw(seed: int = 0) -> Raw:
    rng = np.random.default_rng(seed)
    parts = [
        from_pixels(rng.integers(0, 256, (n, 5, 6, 3), np.uint8), rng.integers(0, 2, n)) for n in (20, 10)
    ]
    return Raw(("a", "é b"), *parts)


def make(part: Path | None, seed: int = 0) -> Raw:
    """``raw(seed)``, in the file ``part`` if there is one."""
    given = raw(seed)
    if part is None:
        return given
    pixels = torch.cat((given.train.pixels, given.test.pixels)).numpy()
    part.write_bytes(pixels.tobytes())
    sums = torch.from_numpy(np.stack([sums_of(image) for image in pixels]))
    rows = Stored(File(part), (5, 6, 3), torch.arange(30), sums)
    return Raw(
        given.classes,
        Split(rows.take(slice(20)), given.train.labels),
        Split(rows.take(slice(20, 30)), given.test.labels),
    )


def never(part: Path | None) -> Raw:
    raise AssertionError("made again")


@pytest.fixture(params=["in memory", "on disk"])
def cached(request):
    """``cache.cached`` that holds the data in memory or leaves it on disk."""
    return partial(cache.cached, stream=request.param == "on disk")


def test_what_was_kept_comes_back_whole_until_another_key_replaces_it(tmp_path, cached):
    path = tmp_path / "new" / "x.images"
    assert cached(path, "k", make).known_sha256 == raw().sha256
    again = cached(path, "k", never)
    assert (again.sha256, again.classes) == (raw().sha256, ("a", "é b"))
    assert cached(path, "other", partial(make, seed=1)).sha256 == raw(1).sha256
    assert cached(path, "other", never).sha256 == raw(1).sha256


def test_a_file_that_is_cut_while_it_is_used_is_named(tmp_path):
    made = cache.cached(tmp_path / "x.images", "k", make, True)
    (tmp_path / "x.images").write_bytes(b"")
    with pytest.raises(DataError, match=f"{tmp_path}/x.images ended too early"):
        made.train.rows.whole()


def test_memory_that_is_short_is_no_damage(tmp_path, monkeypatch):
    path = tmp_path / "x.images"
    cache.cached(path, "k", make, stream=True)
    monkeypatch.setattr(cache, "free_memory", lambda: 1)
    with pytest.raises(DataError, match=r"data\.stream=auto"):
        cache.cached(path, "k", never, stream=False)
    assert cache.cached(path, "k", never, stream=True).sha256 == raw().sha256


def test_a_file_cut_anywhere_is_not_taken_for_whole(tmp_path, caplog, cached):
    path = tmp_path / "x.images"
    cached(path, "k", make)
    whole = path.read_bytes()
    for length in [*range(0, 300, 60), *range(300, len(whole), 900), len(whole) - 1]:
        path.write_bytes(whole[:length])
        assert cached(path, "k", make).sha256 == raw().sha256
        assert path.read_bytes() == whole
    assert "is damaged and will be made again" in caplog.text


def test_a_changed_byte_anywhere_is_found(tmp_path, cached):
    path = tmp_path / "x.images"
    cached(path, "k", make)
    whole = path.read_bytes()
    for place in RNG.integers(0, len(whole), 30):
        changed = bytearray(whole)
        changed[place] ^= 1 << int(RNG.integers(8))
        path.write_bytes(changed)
        again = cached(path, "k", make)
        # That of the pixels, not the one that is kept beside them.
        assert replace(again, known_sha256=None).sha256 == raw().sha256
        np.testing.assert_array_equal(again.train.labels, raw().train.labels)


def child(root: Path) -> ForkProcess:
    """A process that makes ``raw`` in 0.3 s, and writes its digest."""

    def slowly(part: Path) -> Raw:
        (root / "made").touch()
        time.sleep(0.3)
        return make(part)

    def run() -> None:
        (root / "digest").write_text(cache.cached(root / "x.images", "k", slowly, True).sha256)

    process = get_context("fork").Process(target=run)
    process.start()
    deadline = time.monotonic() + 240
    while not (root / "made").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return process


def test_of_two_processes_one_makes_it_and_both_have_it(tmp_path):
    process = child(tmp_path)
    assert cache.cached(tmp_path / "x.images", "k", never, True).sha256 == raw().sha256
    process.join(240)
    assert (tmp_path / "digest").read_text() == raw().sha256


def test_a_process_killed_while_making_leaves_nothing_that_is_believed(tmp_path):
    process = child(tmp_path)
    process.kill()
    process.join(240)
    part = beside(tmp_path / "x.images", "cache")
    part.write_bytes(b"half a file")
    assert cache.cached(tmp_path / "x.images", "k", make, True).sha256 == raw().sha256
    assert cache.cached(tmp_path / "x.images", "k", never, True).sha256 == raw().sha256
    assert not part.exists()


def test_a_full_disk_costs_only_the_cache(tmp_path, monkeypatch, caplog, cached):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert cached(tmp_path / "x.images", "k", make).sha256 == raw().sha256
    assert "No space left" in caplog.text
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".lock"] == []


def test_a_place_that_cannot_be_written_costs_only_the_cache(tmp_path, caplog, cached):
    (tmp_path / "file").write_text("")
    assert cached(tmp_path / "file" / "x.images", "k", make).sha256 == raw().sha256
    assert f"cannot keep decoded images in {tmp_path}/file" in caplog.text
    assert caplog.records[-1].levelno == logging.WARNING


def test_what_was_kept_is_read_where_nothing_can_be_written_any_more(tmp_path):
    path, lock = tmp_path / "x.images", tmp_path / "x.images.lock"
    cache.cached(path, "k", make)
    lock.unlink(missing_ok=True)
    lock.mkdir()
    assert cache.cached(path, "k", never).sha256 == raw().sha256


def test_a_file_on_disk_is_read_for_its_digest_only_if_its_time_of_change_is_another(tmp_path, monkeypatch):
    path = tmp_path / "x.images"
    cache.cached(path, "k", make, True)
    with monkeypatch.context() as patch:
        patch.setattr(File, "read", None)
        assert cache.cached(path, "k", never, True).sha256 == raw().sha256
    os.utime(path, (1, 1))
    assert cache.cached(path, "k", never, True).sha256 == raw().sha256
