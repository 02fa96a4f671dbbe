"""Data sets of torchvision, from small files in their own formats that torchvision itself reads."""

import hashlib
import inspect

import numpy as np
import pytest
import torchvision
from pictures import save
from scipy.io import savemat

from cnnpool.data import DataError, Torchvision, image_source
from cnnpool.data.torchvision import SETS


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def read(root, dataset, **options):
    return Torchvision(root=str(root), dataset=dataset, download=False, **options).read()


def mat_files(root, monkeypatch, seed=0):
    """Write SVHN's two files: their images (N, H, W, C), and labels 1 to 10, of which the last means 0."""
    root.mkdir(exist_ok=True)
    split_list, written = {}, {}
    for part, count in (("train", 40), ("test", 20)):
        images, labels = noise(count, 32, 32, 3, seed=seed + count), np.arange(count) % 10 + 1
        path = root / f"{part}_32x32.mat"
        savemat(path, {"X": images.transpose(1, 2, 3, 0), "y": labels[:, None].astype(np.uint8)})
        split_list[part] = ["", path.name, hashlib.md5(path.read_bytes()).hexdigest()]
        written[part] = images, labels % 10
    monkeypatch.setattr(torchvision.datasets.SVHN, "split_list", split_list)
    return written


def write_idx(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    head = bytes((0, 0, 8, array.ndim)) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    path.write_bytes(head + array.astype(np.uint8).tobytes())


def emnist(root):
    written = {}
    for part, count in (("train", 52), ("test", 26)):
        images, labels = noise(count, 28, 28, seed=count), np.arange(count) % 26 + 1
        stem = root / "EMNIST" / "raw" / f"emnist-letters-{part}"
        write_idx(stem.with_name(f"{stem.name}-images-idx3-ubyte"), images)
        write_idx(stem.with_name(f"{stem.name}-labels-idx1-ubyte"), labels)
        written[part] = images, labels
    return written


def test_images_and_labels_of_svhn_are_those_of_its_files(tmp_path, monkeypatch):
    written = mat_files(tmp_path, monkeypatch)
    raw = read(tmp_path, "SVHN")
    for part, split in (("train", raw.train), ("test", raw.test)):
        images, labels = written[part]
        assert np.array_equal(split.pixels.numpy(), images)
        assert split.labels.tolist() == labels.tolist()
    assert raw.classes == tuple("0123456789") and raw.val is None
    assert raw.notes[0] == f"SVHN of torchvision, in {tmp_path}"
    changed = mat_files(tmp_path, monkeypatch, seed=1)["test"][0]
    assert np.array_equal(read(tmp_path, "SVHN").test.pixels.numpy(), changed)


def test_letters_of_emnist_are_grey_and_have_no_class_for_nothing(tmp_path):
    written = emnist(tmp_path)
    raw = read(tmp_path, "EMNIST", variant="letters")
    assert raw.classes == tuple("abcdefghijklmnopqrstuvwxyz")
    for part, split in (("train", raw.train), ("test", raw.test)):
        images, labels = written[part]
        assert np.array_equal(split.pixels[..., 0].numpy(), images) and split.shape == (1, 28, 28)
        assert (split.labels + 1).tolist() == labels.tolist()
    assert read(tmp_path, "EMNIST", variant="letters", channels=3).train.shape == (3, 28, 28)
    with pytest.raises(DataError, match=r"cannot read EMNIST-balanced in .*data.download=true"):
        read(tmp_path, "EMNIST")


def test_validation_images_that_are_published_are_taken_whole(tmp_path):
    base, lists = tmp_path / "dtd" / "dtd", {}
    for number, part in enumerate(("train", "val", "test")):
        for name in ("banded", "dotted"):
            for i in range(number + 2):
                save(base / "images" / name / f"{part}{i}.png", noise(20, 24, 3, seed=i))
                lists.setdefault(part, []).append(f"{name}/{part}{i}.png")
        (base / "labels").mkdir(exist_ok=True)
        (base / "labels" / f"{part}3.txt").write_text("\n".join(lists[part]))
    raw = read(tmp_path, "DTD", variant=3)
    assert raw.classes == ("banded", "dotted") and raw.train.shape == (3, 20, 24)
    assert {part: len(split) for part, split in raw.splits.items()} == {"train": 4, "val": 6, "test": 8}
    assert raw.val.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert np.array_equal(raw.val.pixels[2].numpy(), noise(20, 24, 3, seed=2))
    (base / "images" / "dotted" / "val1.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"cannot decode .*/images/dotted/val1.png \(not an image"):
        read(tmp_path, "DTD", variant=3)


@pytest.mark.parametrize("there", [(), ("train_32x32.mat",)])
def test_missing_files_are_downloaded_by_torchvision_and_decoded_once(tmp_path, monkeypatch, there):
    source, root, calls = tmp_path / "server", tmp_path / "data", []
    mat_files(source, monkeypatch)
    for name in there:
        root.mkdir()
        (source / name).rename(root / name)

    def download(self):
        calls.append(self.split)
        for path in source.glob(f"{self.split}*.mat"):
            path.rename(root / path.name)

    monkeypatch.setattr(torchvision.datasets.SVHN, "download", download)
    with pytest.raises(DataError, match=r"cannot read SVHN .* set data.download=true, or name the folder"):
        read(root, "SVHN")
    assert not calls
    dataset = Torchvision(root=str(root), dataset="SVHN")
    first = dataset.read()
    assert dataset.origin().folder.parent == root / ".cnnpool-cache"
    assert len(first.train) == 40 and calls == ["train", "test"]
    monkeypatch.setattr(image_source, "decoded_rows", None)
    assert dataset.read().sha256 == first.sha256 and calls == ["train", "test"]


def test_files_that_torchvision_does_not_download_are_said_to_be_fetched_by_hand(tmp_path):
    with pytest.raises(DataError, match=r"put fer2013.csv of that page into .*/fer2013") as raised:
        Torchvision(root=str(tmp_path), dataset="FER2013").read()
    assert "kaggle.com" in str(raised.value) and "\n" not in str(raised.value)


def test_unknown_names_are_refused_with_a_suggestion():
    for dataset, variant, said in (
        ("SVNH", None, "data.dataset must be .* got 'SVNH'; did you mean 'SVHN'"),
        ("EMNIST", "leters", "data.variant must .* got 'leters'; did you mean 'letters'"),
        ("SVHN", "x", "data.variant must be a variant of SVHN, got 'x'; it takes none"),
    ):
        with pytest.raises(ValueError, match=said):
            Torchvision(dataset=dataset, variant=variant)


@pytest.mark.parametrize("name", sorted(SETS))
def test_torchvision_takes_the_arguments_of_every_set(name):
    kind, entry = getattr(torchvision.datasets, name), SETS[name]
    known = {key for base in kind.__mro__[:-1] for key in inspect.signature(base).parameters}
    asked = [*entry.parts.values(), *entry.variants.values()]
    assert {key for arguments in asked for key in arguments} <= known
    assert ("download" in known) or entry.manual
    assert list(entry.parts) in (["train"], ["train", "test"], ["train", "val", "test"])
