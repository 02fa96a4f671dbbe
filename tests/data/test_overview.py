import logging

import pytest
from pictures import fill
from PIL import Image

from cnnpool import data
from cnnpool.data.dataset import lines, warnings
from cnnpool.data.errors import DataError


def folder(root, counts):
    """Random images of 6x5; ``counts`` of each class in training, two for the test."""
    fill(root / "train", counts, (6, 5, 3))
    fill(root / "test", dict.fromkeys(counts, 2), (6, 5, 3))


def build(root, **options):
    return data.build("image_folder", root=str(root), **options)


def test_a_run_begins_with_its_classes_counts_and_size(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    folder(tmp_path, {"cat": 10, "ant": 20})
    Image.new("RGB", (50, 40)).save(tmp_path / "train" / "cat" / "z.png")
    (tmp_path / "test" / "cat" / "z.png").write_bytes(b"no image")
    (tmp_path / "train" / "cat" / "a.txt").write_text("")
    build(tmp_path, skip_unreadable=True)
    listed = tmp_path / ".cnnpool-cache" / "unreadable.txt"
    assert [record.message for record in caplog.records] == [
        "image_folder: 28 training, 3 validation, 4 test images of 6x5",
        "  2 classes in train/, test/",
        "  left alone: .txt (1)",
        "  size: 6x5 (that of 30 of 31 images before any are put aside); 1 of 35 images are resized, 40x50, "
        "and cropped to their centre",
        f"  left out as unreadable: 1 of the images, see {listed}",
        "  class  train  val  test",
        "  -----  -----  ---  ----",
        "  ant       18    2     2",
        "  cat       10    1     2",
    ]


@pytest.mark.parametrize("limit, seen", [(100, 100), (128, 128), (140, 128), (384, 384), (511, 384)])
def test_it_is_said_how_many_images_an_epoch_sees(limit, seen):
    images = data.build("digits", limit=limit)
    of = f" ({seen} an epoch, in batches of 128)" if seen < limit else ""
    assert next(lines(images)).startswith(f"digits: {limit} training{of}, 216 validation, ")
    assert sum(len(labels) for _, labels in images.train_loader()) == seen


def test_the_jobs_of_a_sweep_describe_their_data_once(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    folder(tmp_path, {"cat": 11, "ant": 21})
    for seed in (1, 2):
        build(tmp_path, seed=seed)
    said = [record.message for record in caplog.records]
    assert [line for line in said if line == said[0]] == [said[0]] * 2
    assert len(said) > 6 and said[-1] == said[0] and len(set(said)) == len(said) - 1


def test_of_many_classes_the_largest_are_listed(tmp_path):
    folder(tmp_path, {f"c{i:02}": 1 + (7 * i) % 20 for i in range(20)})
    *table, last = [line.split() for line in lines(build(tmp_path, val_size=0))][-17:]
    assert [int(row[1]) for row in table] == [*range(20, 4, -1)] and last == ["and", "4", "more"]


@pytest.mark.parametrize(("largest", "warned"), [(15, False), (16, True)])
def test_strongly_unbalanced_classes_are_warned_of(tmp_path, largest, warned):
    folder(tmp_path, {"ant": 3, "bee": largest, "cat": 5})
    said = [
        "image_folder: the classes are unbalanced, 16 training images of bee but 3 of ant: the test "
        "gives the balanced accuracy, and that of each class, too"
    ]
    assert list(warnings(build(tmp_path, val_size=0))) == said * warned


def test_a_single_class_is_refused(tmp_path):
    folder(tmp_path, {"ant": 3})
    with pytest.raises(
        DataError, match="image_folder has only the class ant: at least two classes are needed"
    ):
        build(tmp_path, val_size=0)
