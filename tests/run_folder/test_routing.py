import zipfile

import numpy as np
import pytest

from cnnpool.run_folder.errors import DamagedError
from cnnpool.run_folder.layout import ROUTING
from cnnpool.run_folder.routing import Routing, read, write


def test_what_was_written_is_read_and_only_nothing_is_zero(tmp_path):
    assert read(tmp_path) is None
    images = np.arange(2 * 3 * 4 * 3, dtype=np.uint8).reshape(2, 3, 4, 3)
    shares = {"s1": np.array([[[0.0, 1.0]], [[1e-6, 0.5]]]), "layer1.0": np.zeros((2, 1, 1))}
    write(tmp_path, Routing(images, shares))
    found = read(tmp_path)
    assert found.images.tolist() == images.tolist()
    assert found.shares["s1"] == pytest.approx(np.array([[[0, 1]], [[1 / 255, 128 / 255]]]))
    assert found.shares["layer1.0"].tolist() == [[[0.0]], [[0.0]]]


@pytest.mark.parametrize("cut", [0, 10, 200])
def test_a_cut_file_is_damage(tmp_path, cut):
    write(tmp_path, Routing(np.zeros((1, 8, 8, 1), np.uint8), {"s1": np.ones((1, 4, 4))}))
    path = tmp_path / ROUTING
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(DamagedError, match="damaged"):
        read(tmp_path)


def test_arrays_that_do_not_belong_together_are_damage(tmp_path):
    for routing in (
        Routing(np.zeros((1, 8, 8, 1), np.uint8), {"s1": np.ones((2, 4, 4))}),
        Routing(np.zeros((8, 8), np.uint8), {}),
        Routing(np.zeros((1, 8, 8, 5), np.uint8), {}),
        Routing(np.zeros((1, 8, 8, 1), np.uint8), {"s1": np.ones((1, 4, 0))}),
    ):
        write(tmp_path, routing)
        with pytest.raises(DamagedError, match="shapes"):
            read(tmp_path)


def test_an_archive_packed_in_an_unknown_way_is_damage(tmp_path):
    with zipfile.ZipFile(tmp_path / "routing.npz", "w") as archive:
        archive.writestr("images.npy", b"x")
    content = (tmp_path / "routing.npz").read_bytes()
    # The method of compression in the entry's two headers.
    for mark, place in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        start = content.index(mark) + place
        content = content[:start] + b"\x63\x00" + content[start + 2 :]
    (tmp_path / "routing.npz").write_bytes(content)
    with pytest.raises(DamagedError, match="compression method is not supported"):
        read(tmp_path)


def test_what_unpacks_to_more_than_a_run_writes_is_not_unpacked(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / ROUTING, images=np.zeros((1, 3000, 30000, 1), np.uint8))
    assert (tmp_path / ROUTING).stat().st_size < 1 << 20
    monkeypatch.setattr(np, "load", pytest.fail)
    with pytest.raises(DamagedError, match="unpacks to more"):
        read(tmp_path)
