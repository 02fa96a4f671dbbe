import logging
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from cnnpool.data import DataError, ImageFolder, image_source

RNG = np.random.default_rng(0)


def pixels(height: int = 8, width: int = 8) -> np.ndarray:
    return RNG.integers(0, 256, (height, width, 3), np.uint8)


def save(path: Path, array: np.ndarray, **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path, **options)
    return path


@pytest.fixture
def root(tmp_path):
    for part, n in (("train", 4), ("test", 2)):
        for name in ("cat", "ant", "bee"):
            for i in range(n):
                save(tmp_path / part / name / f"{i}.png", pixels())
    return tmp_path


def read(root: Path, **options):
    return ImageFolder(root=str(root), **options).read()


def test_classes_images_and_labels_are_those_of_the_folders(root):
    raw = read(root)
    assert raw.classes == ("ant", "bee", "cat")
    assert raw.train.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    expected = [np.array(Image.open(path)) for path in sorted((root / "train").glob("*/*.png"))]
    np.testing.assert_array_equal(raw.train.pixels.numpy(), np.stack(expected))
    assert raw.test.labels.tolist() == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("suffix", ["jpg", "JPEG", "bmp", "gif", "webp", "tif"])
def test_every_usual_format_is_read(root, suffix):
    flat = np.full((8, 8, 3), (200, 100, 40), np.uint8)
    save(root / "train" / "ant" / f"z.{suffix}", flat)
    image = read(root).train.pixels[4].numpy().astype(int)
    assert np.abs(image - flat).max() <= 4


def test_hidden_and_other_files_are_left_alone_and_counted(root):
    (root / "train" / "ant" / "notes.txt").write_text("x")
    (root / "train" / "ant" / "other.TXT").write_text("x")
    (root / "train" / "ant" / ".hidden.png").write_bytes(b"x")
    (root / "train" / "ant" / "nested").mkdir()
    (root / "train" / "Thumbs").write_bytes(b"x")
    (root / "train" / ".cache").mkdir()
    save(root / "train" / "stray.png", pixels())
    save(root / "spare" / "dog" / "0.png", pixels())
    raw = read(root)
    assert len(raw.train) == 12 and raw.classes == ("ant", "bee", "cat")
    assert raw.notes[1] == (
        "left alone: .txt (2), files without suffix (1), hidden files (1), "
        "images in no class's folder (1), other folders (1)"
    )


def test_images_are_decoded_once(root, monkeypatch):
    first = read(root)
    monkeypatch.setattr(image_source, "decoded_rows", None)
    assert read(root).sha256 == first.sha256
    assert ImageFolder(root=os.path.relpath(root)).read().sha256 == first.sha256


def test_a_changed_new_or_removed_file_is_seen(root):
    digests = [read(root).sha256]
    path = save(root / "train" / "ant" / "0.png", pixels())
    digests.append(read(root).sha256)
    save(path.with_name("9.png"), pixels())
    digests.append(read(root).sha256)
    path.unlink()
    digests.append(read(root).sha256)
    assert len(set(digests)) == 4


def test_options_do_not_share_a_cache(root):
    shapes = {
        read(root, channels=channels, size=size).train.images.shape
        for channels in (1, 3, 1)
        for size in (None, 4, (4, 5), None)
    }
    assert len(shapes) == 6


def test_a_folder_that_cannot_be_written_is_cached_elsewhere(root, monkeypatch, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(elsewhere))
    # The superuser may write anywhere, so the answer is put in its mouth.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    first = read(root)
    assert not (root / ".cnnpool-cache").exists()
    monkeypatch.setattr(image_source, "decoded_rows", None)
    assert read(root).sha256 == first.sha256
    assert list(elsewhere.glob("cnnpool/*/*.images"))


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: os.urandom(1000)])
@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_a_damaged_image_is_named(root, damage, suffix):
    path = save(root / "train" / "bee" / f"z.{suffix}", pixels(64, 64))
    path.write_bytes(damage(path.read_bytes()))
    for options in ({}, {"size": 8}):
        with pytest.raises(
            DataError, match=rf"cannot decode .*bee/z.{suffix} .*repair or remove what cannot"
        ) as caught:
            read(root, **options)
        assert "\n" not in str(caught.value)


def test_a_class_that_is_only_tested_is_refused(root):
    save(root / "test" / "dog" / "0.png", pixels())
    with pytest.raises(DataError, match=r"test/dog is a class that .*train lacks"):
        read(root)


def test_an_empty_class_is_refused(root):
    (root / "train" / "dog").mkdir()
    with pytest.raises(DataError, match=r"train/dog holds no image"):
        read(root)


def test_a_large_size_must_be_asked_for(root):
    for i in range(13):
        save(root / "train" / "ant" / f"large{i}.png", np.zeros((600, 700, 3), np.uint8))
    with pytest.raises(ValueError, match=r"most images are 600x700: choose .*data.size=224"):
        read(root)


def test_images_of_many_sizes_need_a_size(root):
    for i in range(13):
        save(root / "train" / "ant" / f"z{i}.png", pixels(9 + i, 20))
    with pytest.raises(ValueError, match=r"14 sizes, from 8x8 to 21x20: choose .*data.size=64"):
        read(root)
    assert len(read(root, size=8).train) == 25


def cut_short(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-2000])
    return path


@pytest.fixture
def damaged(root):
    """Twelve unreadable images among 30, in both splits."""
    for i in range(11):
        cut_short(save(root / "train" / "bee" / f"z{i:02}.png", pixels(64, 64)))
    (root / "test" / "cat" / "z.jpg").write_bytes(b"no image")
    return root


def test_unreadable_images_are_found_together_and_listed_in_a_file(damaged):
    with pytest.raises(DataError) as caught:
        read(damaged)
    listed = damaged / ".cnnpool-cache" / "unreadable.txt"
    message = str(caught.value)
    assert message.startswith(f"cannot decode {damaged}/train/bee/z00.png (OSError: ") and "\n" not in message
    assert message.endswith(
        f" and 11 more (see {listed}): repair or remove what cannot be read, or go on without it by "
        "data.skip_unreadable=true"
    )
    lines = listed.read_text().splitlines()
    assert len(lines) == 12 and lines[-1].startswith("test/cat/z.jpg: not an image of BMP, GIF")


def test_unreadable_images_are_left_out_if_asked_and_recorded(damaged, root):
    raw = read(damaged, skip_unreadable=True)
    assert (len(raw.train), len(raw.test)) == (12, 6)
    assert raw.train.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert list(raw.skipped) == [f"train/bee/z{i:02}.png" for i in range(11)] + ["test/cat/z.jpg"]
    with pytest.raises(DataError, match="and 11 more"):
        read(root)
    for path in raw.skipped:
        (root / path).unlink()
    assert read(root).sha256 == raw.sha256


def test_a_disk_that_fails_is_no_unreadable_image(root, monkeypatch):
    def failing(path, size, channels):
        raise OSError(5, "Input/output error", path)

    monkeypatch.setattr("cnnpool.data.images.decode", failing)
    with pytest.raises(DataError, match=r"cannot read .*png \(Input/output error\)"):
        read(root, skip_unreadable=True)


def test_no_warning_of_pillows_is_heard(root, monkeypatch, caplog):
    # The size that Pillow warns of is lowered: real ones take half a gigabyte.
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 50)
    palette = Image.new("P", (8, 8))
    palette.putpalette(RNG.integers(0, 256, 768, np.uint8).tobytes())
    palette.save(root / "train" / "ant" / "palette.png", transparency=bytes(range(256)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(root)
    assert Image.MAX_IMAGE_PIXELS == 50
    assert [record for record in caplog.records if record.name.startswith("PIL")] == []
    assert logging.getLogger("PIL").level != logging.CRITICAL


def test_a_picture_of_another_format_is_not_opened_whatever_its_name(root, monkeypatch):
    path = root / "train" / "ant" / "z.png"
    path.write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\nshowpage\n")

    def ran(*arguments, **options):
        raise AssertionError("another program was started")

    monkeypatch.setattr("subprocess.Popen", ran)
    with pytest.raises(DataError, match=r"z.png \(not an image of BMP, .*WEBP\)"):
        read(root)


def test_the_key_of_the_cache_knows_what_changes_pixels(root, monkeypatch):
    read(root)
    calls = []
    real = image_source.decoded_rows
    monkeypatch.setattr(image_source, "decoded_rows", lambda *a, **b: calls.append(1) or real(*a, **b))
    read(root)
    assert not calls
    monkeypatch.setattr("cnnpool.data.image_folder.MADE_BY", "another Pillow")
    read(root)
    read(root, max_megapixels=7)
    assert len(calls) == 2
