import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cnnpool.data import DataError, Split
from cnnpool.data.rows import File, InMemory, Stored, sums_of

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (40, 5, 3, 2), np.uint8)


def stored(path) -> Stored:
    path.write_bytes(PIXELS.tobytes())
    row_sums = torch.from_numpy(np.stack([sums_of(image) for image in PIXELS]))
    return Stored(File(path), (5, 3, 2), torch.arange(40), row_sums)


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory) -> Stored:
    return stored(tmp_path_factory.mktemp("rows") / "x")


@settings(max_examples=60)
@given(first=st.lists(st.integers(0, 39), max_size=30), data=st.data())
def test_rows_on_disk_are_those_in_memory(on_disk, first, data):
    taken = on_disk.take(torch.tensor(first, dtype=torch.int64))
    then = data.draw(st.lists(st.integers(0, len(first) - 1), max_size=30)) if first else []
    index = torch.tensor(then, dtype=torch.int64)
    expected = PIXELS[first][then]
    assert np.array_equal(taken.read(index).numpy(), expected)
    assert np.array_equal(InMemory(torch.from_numpy(PIXELS)[first]).read(index).numpy(), expected)
    assert np.array_equal(taken.whole().numpy(), PIXELS[first])


def test_sums_are_those_of_whole_numbers_in_memory_and_on_disk(on_disk):
    values = PIXELS.astype(np.int64)
    expected = np.stack((values.sum((0, 1, 2)), (values**2).sum((0, 1, 2))))
    for rows in (on_disk, InMemory(torch.from_numpy(PIXELS))):
        assert rows.sums().dtype == torch.float64
        assert np.array_equal(rows.sums().numpy(), expected)
    own = on_disk.take(torch.tensor([3, 3, 9]))
    assert np.array_equal(own.sums().numpy(), sum(sums_of(PIXELS[i]) for i in (3, 3, 9)))


def test_sums_of_the_largest_image_do_not_overflow():
    white = np.full((8192, 9, 3), 255, np.uint8)
    assert sums_of(white)[1].tolist() == [8192 * 9 * 255**2] * 3


def test_a_part_and_no_rows_at_all_are_rows(on_disk):
    for rows in (on_disk, InMemory(torch.from_numpy(PIXELS))):
        part = rows.take(slice(2, 5))
        assert np.array_equal(part.whole().numpy(), PIXELS[2:5])
        assert part.sums().tolist() == sum(sums_of(image) for image in PIXELS[2:5]).tolist()
        empty = rows.take(slice(0, 0))
        assert empty.whole().shape == (0, 5, 3, 2) and empty.nbytes == 0 and not list(empty.chunks())[1:]


def test_a_file_that_became_shorter_is_named_and_one_whose_name_is_gone_stays_readable(tmp_path):
    rows, other = stored(tmp_path / "x"), stored(tmp_path / "y")
    (tmp_path / "x").write_bytes(b"short")
    with pytest.raises(DataError, match=r"/x ended too early: it was changed by another program; run again"):
        rows.whole()
    (tmp_path / "y").unlink()
    assert np.array_equal(other.whole().numpy(), PIXELS)


def test_labels_must_be_as_many_as_rows(on_disk):
    with pytest.raises(ValueError, match="40 images need as many int64 labels"):
        Split(on_disk, torch.zeros(39, dtype=torch.int64))
