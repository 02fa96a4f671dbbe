import os
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from cnnpool import data
from cnnpool.data import DataError, ImageFolder
from cnnpool.data.draws import cut
from cnnpool.data.image_folder import find_images


def save(path: Path, value: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.new("RGB", (4, 4), (value, 2 * value % 256, 7))
    image.putpixel((3, 3), (255, 255, 255))
    image.save(path)
    return path


def fill(folder: Path, count: int = 5, classes=("ant", "bee"), begin: int = 0) -> Path:
    for i, name in enumerate(classes):
        for j in range(count):
            save(folder / name / f"{j}.png", begin + i * count + j)
    return folder


def read(root, **options):
    return ImageFolder(root=str(root), **options).read()


def values(split) -> list[int]:
    return split.images[:, 0, 0, 0].tolist()


@pytest.mark.parametrize("test", ["test", "Test", "TESTING"])
@pytest.mark.parametrize("train", ["train", "Training"])
def test_train_and_test_are_the_splits(tmp_path, train, test):
    fill(tmp_path / train)
    fill(tmp_path / test, 2, begin=100)
    raw = read(tmp_path)
    assert values(raw.train) == list(range(10)) and values(raw.test) == [100, 101, 102, 103]
    assert raw.val is None and raw.notes[0] == f"2 classes in {train}/, {test}/"


@pytest.mark.parametrize("val", ["val", "valid", "validation", "Val"])
def test_without_a_test_folder_the_validation_images_are_the_test(tmp_path, val):
    fill(tmp_path / "train")
    fill(tmp_path / val, 2, begin=100)
    raw = read(tmp_path)
    assert values(raw.test) == [100, 101, 102, 103] and raw.val is None
    assert raw.notes[0] == f"2 classes in train/, {val}/; {val}/ holds the test images"


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
    save(tmp_path / "valid" / "ant" / "0.png", 90)
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


def test_a_class_may_be_called_train(tmp_path):
    fill(tmp_path, 3, ("plane", "train", "test"))
    assert read(tmp_path).classes == ("plane", "test", "train")


def test_nested_folders_and_links_to_files_and_folders_are_read(tmp_path):
    root = fill(tmp_path / "root", 2)
    save(root / "ant" / "deep" / "er" / "x.png", 90)
    other = save(tmp_path / "elsewhere" / "y.png", 91)
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


@pytest.mark.parametrize("target", ["nowhere.png", "loop.png"])
def test_a_broken_link_is_an_unreadable_image(tmp_path, target):
    fill(tmp_path)
    (tmp_path / "ant" / "loop.png").symlink_to(tmp_path / "ant" / target)
    with pytest.raises(DataError, match=r"cannot decode .*loop.png \((No such file|Too many levels)"):
        read(tmp_path)
    assert list(read(tmp_path, skip_unreadable=True).skipped) == ["ant/loop.png"]


def test_a_pipe_named_as_an_image_is_not_waited_for(tmp_path):
    fill(tmp_path)
    os.mkfifo(tmp_path / "ant" / "z.png")
    assert read(tmp_path).notes[1] == "left alone: .png (1)"


def test_folders_that_systems_make_are_no_classes_and_hold_no_images(tmp_path):
    fill(tmp_path)
    for name in ("@eaDir", "#recycle", "__MACOSX", "lost+found", "$RECYCLE.BIN"):
        save(tmp_path / name / "ant" / "0.png", 90)
        save(tmp_path / "ant" / name / "0.png", 91)
    (tmp_path / "ant" / "Thumbs.db").write_bytes(b"x")
    (tmp_path / "ant" / ".DS_Store").write_bytes(b"x")
    raw = read(tmp_path)
    assert raw.classes == ("ant", "bee") and len(raw.train) + len(raw.test) == 10
    assert raw.notes[1] == "left alone: .db (1), folders of the system (10), hidden files (1)"


def test_a_class_whose_name_is_written_in_two_ways_is_one(tmp_path):
    composed, apart = "caf\u00e9", "cafe\u0301"
    fill(tmp_path / "train", 3, (apart, "zoo"))
    save(tmp_path / "train" / composed / "x.png", 90)
    fill(tmp_path / "test", 2, (composed, "zoo"))
    raw = read(tmp_path)
    assert raw.classes == (composed, "zoo")
    assert raw.train.labels.tolist() == [0] * 4 + [1] * 3 and raw.test.labels.tolist() == [0, 0, 1, 1]


def unlabelled(root):
    fill(root / "train")
    save(root / "test" / "0.png")


def misnamed(root):
    fill(root / "train")
    fill(root / "tset")


def twice(root):
    for name in ("train", "test", "val", "valid"):
        fill(root / name)


def too_high(root):
    fill(root / "inner" / "train")
    fill(root / "inner" / "test")


def only_tested(root):
    fill(root / "test")


def nothing(root):
    pass


def empty(root):
    (root / "ant").mkdir()


def single(root):
    fill(root, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (unlabelled, "root/test holds no folder: put the images of each class into a folder of its own, or"),
        (misnamed, "beside .*root/train there is neither test/ nor val/, but tset/: data.root must"),
        (twice, "holds both val/ and valid/: keep one of them"),
        (too_high, "holds a single folder, which holds train/: use data.root=.*[/]root/inner"),
        (only_tested, "root/train is missing beside test/: data.root must"),
        (nothing, "root holds no folder of images: put the images of each class into a folder"),
        (empty, "root holds no folder of images: put the images"),
        (single, "no class of .*root has the two images"),
        (lambda root: root.rmdir(), r"cannot read .*root \(No such file or directory\): data.root must hold"),
    ],
)
def test_what_is_no_data_set_is_refused_in_one_line(tmp_path, make, message):
    root = tmp_path / "root"
    root.mkdir()
    make(root)
    with pytest.raises(DataError, match=message) as caught:
        read(root)
    assert "\n" not in str(caught.value)


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
