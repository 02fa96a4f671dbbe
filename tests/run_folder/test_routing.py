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


def test_what_unpacks_to_more_than_a_run_writes_is_not_unpacked(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / ROUTING, images=np.zeros((1, 3000, 30000, 1), np.uint8))
    assert (tmp_path / ROUTING).stat().st_size < 1 << 20
    monkeypatch.setattr(np, "load", pytest.fail)
    with pytest.raises(DamagedError, match="unpacks to more"):
        read(tmp_path)
