import logging
import os
import shutil
import warnings
from pathlib import Path

import numpy as np
import pictures
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import noise, save
from PIL import Image

from cnnpool import data
from cnnpool.data import DataError, ImageFolder, image_source, images
from cnnpool.data.draws import cut, stratified
from cnnpool.data.image_folder import find_images


def pixels(height: int = 8, width: int = 8) -> np.ndarray:
    return noise(height, width, 3)


@pytest.fixture
def root(tmp_path):
    pictures.fill(tmp_path / "train", {"cat": 4, "ant": 4, "bee": 4})
    pictures.fill(tmp_path / "test", {"cat": 2, "ant": 2, "bee": 2})
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


def test_files_and_folders_that_are_not_the_user_s_images_are_left_alone_and_counted(root):
    ant = root / "train" / "ant"
    for name in ("notes.txt", "other.TXT", ".hidden.png", ".DS_Store", "Thumbs.db", "README"):
        (ant / name).write_bytes(b"x")
    (ant / "nested").mkdir()
    (root / "train" / ".cache").mkdir()
    for folder in (root / "train", root, root / "spare" / "dog"):
        save(folder / "stray.png", pixels())
    for name in ("@eaDir", "#recycle", "__MACOSX", "lost+found", "$RECYCLE.BIN"):
        save(root / "train" / name / "ant" / "0.png", pixels())
        save(ant / name / "0.png", pixels())
    raw = read(root)
    assert len(raw.train) == 12 and raw.classes == ("ant", "bee", "cat")
    assert raw.notes[1] == (
        "left alone: .db (1), .txt (2), files without suffix (1), folders of the system (10), "
        "hidden files (2), images in no class's folder (2), other folders (1)"
    )


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


def test_large_or_many_sizes_need_a_size(root):
    for i in range(13):
        save(root / "train" / "ant" / f"z{i}.png", pixels(9 + i, 20))
    with pytest.raises(ValueError, match=r"14 sizes, from 8x8 to 21x20: choose .*data.size=64"):
        read(root)
    assert len(read(root, size=8).train) == 25
    for i in range(13):
        save(root / "train" / "ant" / f"z{i}.png", np.zeros((600, 700, 3), np.uint8))
    with pytest.raises(ValueError, match=r"most images are 600x700: choose .*data.size=224"):
        read(root)


def cut_short(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-2000])
    return path


@pytest.fixture
def damaged(root):
    """Twelve unreadable images among 30, in both splits: cut short, empty, or no image."""
    for i in range(11):
        cut_short(save(root / "train" / "bee" / f"z{i:02}.png", pixels(64, 64)))
    (root / "train" / "bee" / "z10.png").write_bytes(b"")
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


def test_where_their_list_cannot_be_written_the_reason_is_said(damaged):
    (damaged / ".cnnpool-cache").write_text("")
    said = r"and 11 more \(their list cannot be kept in .*cnnpool-cache: File exists\): repair"
    with pytest.raises(DataError, match=said):
        read(damaged)


def test_unreadable_images_are_left_out_if_asked_and_recorded(damaged, root):
    raw = read(damaged, skip_unreadable=True)
    assert (len(raw.train), len(raw.test)) == (12, 6)
    assert raw.train.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert list(raw.skipped) == [f"train/bee/z{i:02}.png" for i in range(11)] + ["test/cat/z.jpg"]
    with pytest.raises(DataError, match="and 11 more"):
        read(root)
    for path in raw.skipped:
        (root / path).unlink()
    assert read(root).sha256 == raw.sha256 and not (root / ".cnnpool-cache" / "unreadable.txt").exists()
    # A file may be damaged in such a way that it asks the system for an impossible place.
    (root / "test" / "cat" / "z.tif").write_bytes(b"II+\0\x08\0\0\0" + (2**63 - 1).to_bytes(8, "little"))
    assert list(read(root, skip_unreadable=True).skipped) == ["test/cat/z.tif"]


def test_a_disk_that_fails_is_no_unreadable_image(root, monkeypatch):
    def failing(path, size, channels, white):
        raise OSError(5, "Input/output error", path)

    monkeypatch.setattr("cnnpool.data.images.decode", failing)
    with pytest.raises(DataError, match=r"cannot read .*png \(Input/output error\)"):
        read(root, skip_unreadable=True)


def test_no_warning_of_pillows_is_heard(root, monkeypatch, caplog):
    # The size that Pillow warns of is lowered: real ones take half a gigabyte.
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 30)
    palette = Image.new("P", (8, 8))
    palette.putpalette(noise(768).tobytes())
    palette.save(root / "train" / "ant" / "palette.png", transparency=bytes(range(256)))
    # Metadata of five entries that ends before the first.
    save(root / "train" / "ant" / "z.jpg", pixels(), exif=b"Exif\0\0II*\0\x08\0\0\0\x05\0")
    Image.init()
    caplog.set_level(logging.DEBUG, "PIL")
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        read(root)
    assert not heard and Image.MAX_IMAGE_PIXELS == 30
    assert [record for record in caplog.records if record.name.startswith("PIL")] == []
    assert logging.getLogger("PIL").level != logging.CRITICAL


def test_a_picture_of_another_format_is_not_opened_whatever_its_name(root, monkeypatch):
    path = root / "train" / "ant" / "z.png"
    path.write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\nshowpage\n")

    def ran(*arguments, **options):
        raise AssertionError("another program was started")

    monkeypatch.setattr("subprocess.Popen", ran)
    with pytest.raises(DataError, match=r"z.png \(not an image of BMP, .*WEBP.*\)"):
        read(root)


def test_the_key_of_the_cache_knows_what_changes_pixels(root, monkeypatch):
    read(root)
    calls = []
    real = image_source.decoded_rows
    monkeypatch.setattr(image_source, "decoded_rows", lambda *a, **b: calls.append(1) or real(*a, **b))
    read(root, channels=3)
    read(Path(os.path.relpath(root)))
    assert not calls
    monkeypatch.setattr("cnnpool.data.image_folder.MADE_BY", "another Pillow")
    read(root)
    read(root, max_megapixels=7)
    assert len(calls) == 2


def dot(path: Path, value: int = 0) -> Path:
    image = np.full((4, 4, 3), (value, 2 * value % 256, 7), np.uint8)
    image[3, 3] = 255
    return save(path, image)


def fill(folder: Path, count: int = 5, classes=("ant", "bee"), begin: int = 0) -> Path:
    for i, name in enumerate(classes):
        for j in range(count):
            dot(folder / name / f"{j}.png", begin + i * count + j)
    return folder


def values(split) -> list[int]:
    return split.images[:, 0, 0, 0].tolist()


@pytest.mark.parametrize(
    ("train", "test", "note"),
    [
        ("train", "Test", ""),
        ("Training", "TESTING", ""),
        ("train", "valid", "; valid/ holds the test images"),
        ("train", "Validation", "; Validation/ holds the test images"),
    ],
)
def test_train_and_test_or_validation_are_the_splits(tmp_path, train, test, note):
    fill(tmp_path / train)
    fill(tmp_path / test, 2, begin=100)
    raw = read(tmp_path)
    assert values(raw.train) == list(range(10)) and values(raw.test) == [100, 101, 102, 103]
    assert raw.val is None and raw.notes[0] == f"2 classes in {train}/, {test}/{note}"


def test_own_validation_images_are_taken_whole(tmp_path):
    fill(tmp_path / "train")
    fill(tmp_path / "valid", 2, begin=50)
    fill(tmp_path / "test", 2, begin=100)
    for options, expected in (({}, [50, 51, 52, 53]), ({"val_size": 0}, [])):
        dataset = data.build("image_folder", root=str(tmp_path), **options)
        assert values(dataset.val) == expected
        assert values(dataset.train) == list(range(10)) and len(dataset.test) == 4
    before = read(tmp_path).sha256
    assert read(tmp_path).sha256 == before
    dot(tmp_path / "valid" / "ant" / "0.png", 90)
    assert read(tmp_path).sha256 != before


@pytest.mark.parametrize("below", ["", "train"])
def test_classes_alone_are_cut_by_a_seed_of_their_own(tmp_path, below):
    fill(tmp_path / below, 10)
    raw = read(tmp_path)
    assert raw.notes[0] == ("2 classes in train/" if below else "2 classes, each in a folder of its own")
    assert len(raw.train) == 16 and raw.test.labels.tolist() == [0, 0, 1, 1]
    assert sorted(values(raw.train) + values(raw.test)) == list(range(20))
    assert "test images: 20 % of each class (data.test_size), drawn by data.split_seed=0" in raw.notes
    assert values(read(tmp_path).test) == values(raw.test)
    assert values(read(tmp_path, split_seed=1).test) != values(raw.test)
    assert len(read(tmp_path, test_size=0.5).test) == 10
    for seed in (1, 2):
        dataset = data.build("image_folder", root=str(tmp_path), seed=seed)
        assert values(dataset.test) == values(raw.test)


def test_a_class_may_be_called_train_and_an_empty_folder_is_none(tmp_path):
    fill(tmp_path, 3, ("plane", "train", "test"))
    (tmp_path / "empty").mkdir()
    raw = read(tmp_path)
    assert raw.classes == ("plane", "test", "train")
    assert raw.notes[1] == "left alone: folders without images (1)"


def test_nested_folders_and_links_to_files_and_folders_are_read(tmp_path):
    root = fill(tmp_path / "root", 2)
    dot(root / "ant" / "deep" / "er" / "x.png", 90)
    other = dot(tmp_path / "elsewhere" / "y.png", 91)
    (root / "ant" / "link.png").symlink_to(other)
    (root / "bee" / "more").symlink_to(other.parent)
    parts, _ = find_images(root)
    names = {k: [os.path.relpath(p, root / k) for p in v] for k, v in parts["train"].items()}
    assert names == {
        "ant": ["0.png", "1.png", "deep/er/x.png", "link.png"],
        "bee": ["0.png", "1.png", "more/y.png"],
    }
    raw = read(root)
    assert sorted(values(raw.train) + values(raw.test)) == [0, 1, 2, 3, 90, 91, 91]


def test_links_in_a_circle_are_named(tmp_path):
    fill(tmp_path)
    (tmp_path / "ant" / "up").symlink_to(tmp_path / "ant")
    with pytest.raises(DataError, match=r"ant/up is a link to a folder above it: remove the link"):
        read(tmp_path)


@pytest.mark.parametrize("target", ["nowhere.png", "loop.png", "0.png/x", "x" * 300])
def test_a_broken_link_is_an_unreadable_image(tmp_path, target):
    fill(tmp_path)
    (tmp_path / "ant" / "loop.png").symlink_to(tmp_path / "ant" / target)
    with pytest.raises(DataError, match=r"cannot decode .*loop.png \((No such|Too many|Not a d|File name)"):
        read(tmp_path)
    assert list(read(tmp_path, skip_unreadable=True).skipped) == ["ant/loop.png"]


def test_a_class_whose_name_is_written_in_two_ways_is_one(tmp_path):
    composed, apart = "caf\u00e9", "cafe\u0301"
    fill(tmp_path / "train", 3, (apart, "zoo"))
    dot(tmp_path / "train" / composed / "x.png", 90)
    fill(tmp_path / "test", 2, (composed, "zoo"))
    raw = read(tmp_path)
    assert raw.classes == (composed, "zoo")
    assert raw.train.labels.tolist() == [0] * 4 + [1] * 3 and raw.test.labels.tolist() == [0, 0, 1, 1]


REFUSED = {
    "train/ant/0.png test/0.png": "root/test holds no folder: put the images of each class into a folder of",
    "train/ant/0.png tset/ant/0.png": "beside .*root/train there is neither test/ nor val/, but tset/: data",
    "train/a/0.png test/a/0.png val/a/0.png valid/a/0.png": "holds both val/ and valid/: keep one of them",
    "in/train/ant/0.png in/test/ant/0.png": "holds a single folder, which holds train/: use data.root=.*/in",
    "test/ant/0.png": "root/train is missing beside test/: data.root must",
    "": "root holds no folder of images: put the images of each class into a folder",
    "ant/": "root holds no folder of images: put the images",
    "ant/0.png bee/0.png": "no class of .*root has the two images",
    "train/a/0.png test/dog/0.png": "test/dog is a class that .*train lacks",
    "train/a/0.png train/dog/ test/a/0.png": "train/dog holds no image",
}


def test_folders_that_are_no_data_set_are_refused_in_one_line(tmp_path):
    for number, (names, message) in enumerate(REFUSED.items()):
        root = tmp_path / str(number) / "root"
        root.mkdir(parents=True)
        for name in names.split():
            (root / name).mkdir(parents=True) if name.endswith("/") else dot(root / name)
        with pytest.raises(DataError, match=message) as caught:
            read(root)
        assert "\n" not in str(caught.value)
    with pytest.raises(
        DataError, match=r"cannot read .*root \(No such file or directory\): data.root must hold"
    ):
        read(tmp_path / "root")


@settings(max_examples=100)
@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=6),
    share=st.floats(0.01, 0.99),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_cut_is_complete_disjoint_stratified_and_repeats(sizes, share, seed):
    labels = torch.tensor([label for label, size in enumerate(sizes) for _ in range(size)], dtype=torch.long)
    labels = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed % 1000))]
    rest, second = cut(labels, share, seed=seed)
    assert sorted(rest.tolist() + second.tolist()) == list(range(len(labels)))
    for index in (rest, second):
        assert index.tolist() == sorted(index.tolist())
    taken = labels[second].bincount(minlength=len(sizes)).tolist()
    for size, own in zip(sizes, taken, strict=True):
        assert own == 0 if size < 2 else 1 <= own < size and abs(own - share * size) <= 1
    again = cut(labels, share, seed=seed)
    assert torch.equal(again[0], rest) and torch.equal(again[1], second)


@pytest.fixture
def opened(monkeypatch):
    """The names of the decoded files."""
    names, decode = [], images.decode

    def counted(picture, *arguments):
        names.append(os.path.relpath(picture, Path(picture).parents[1]))
        return decode(picture, *arguments)

    monkeypatch.setattr(images, "decode", counted)
    return names


def test_only_images_that_have_changed_are_decoded_again(tmp_path, opened):
    root, fresh = pictures.fill(tmp_path / "mine", {"ant": 5, "bee": 5}), iter(range(9))

    def decoded():
        """The files decoded by a reading that gives what a new reading of all gives."""
        opened.clear()
        found, names = read(root, size=8).sha256, sorted(opened)
        copy = tmp_path / f"copy{next(fresh)}"
        shutil.copytree(root, copy, ignore=shutil.ignore_patterns(".cnnpool-cache"))
        assert read(copy, size=8).sha256 == found
        return names

    assert len(decoded()) == 10
    (root / "ant" / "0.png").unlink()
    assert decoded() == []
    save(root / "ant" / "9.png", pixels())
    os.utime(root / "ant" / "1.png", (0, 0))
    (root / "ant" / "2.png").rename(root / "bee" / "7.png")
    assert decoded() == ["ant/1.png", "ant/9.png", "bee/7.png"]
    # Pixels that are not those that were written are decoded, and so are those of another size.
    file = root / ".cnnpool-cache" / "3x8.images"
    content = bytearray(file.read_bytes())
    content[3] ^= 1
    file.write_bytes(content)
    (root / "bee" / "4.png").unlink()
    assert decoded() == ["ant/1.png"]
    # So are those that a file has lost.
    file.write_bytes(file.read_bytes()[:-1])
    (root / "bee" / "0.png").unlink()
    assert decoded() == ["bee/7.png"]
    opened.clear()
    read(root, size=4)
    assert len(opened) == 8


@pytest.mark.parametrize("published", [True, False])
def test_few_images_are_those_that_a_choice_from_all_takes(root, opened, published):
    if not published:
        for path in root.glob("test/*/*.png"):
            path.rename(root / "train" / path.parent.name / f"more{path.name}")
        shutil.rmtree(root / "test")
    source = ImageFolder(root=str(root), size=8, test_size=0.5)
    whole, few = source.read(), source.read(2)
    assert (len(few.train), len(few.test)) == (2, 2) and few.classes == whole.classes and not few.val
    wanted = stratified(whole.test.labels, seed=0)[:2].sort().values
    assert torch.equal(few.test.pixels, whole.test.take(wanted).pixels)
    assert torch.equal(few.test.labels, whole.test.labels[wanted])
    assert len(opened) == 18 + 4 and "4 of 18 images are decoded" in few.notes[1]
