"""Images whose classes stand in a table."""

import os

import numpy as np
import pytest
from pictures import fill, noise, save
from PIL import Image, features

from cnnpool import data
from cnnpool.data import DataError, ImageTable

ROWS = [f"{n}.png,{'ant' if n % 2 else 'bee'},{'Testing' if n > 5 else 'train'}" for n in range(8)]


@pytest.fixture
def root(tmp_path):
    fill(tmp_path, {"all": 8})
    return tmp_path


def read(root, *rows, head="file,class,part", **options):
    (root / "all" / "labels.csv").write_text("\n".join([head, *rows]), encoding="utf-8")
    return ImageTable(root=str(root), table="all/labels.csv", **options).read()


def test_images_and_classes_are_those_of_the_lines(root):
    raw = read(root, *ROWS, split="part")
    assert raw.classes == ("ant", "bee") and raw.test.labels.tolist() == [0, 1]
    assert raw.train.labels.tolist() == [0, 0, 0, 1, 1, 1]
    wanted = [np.array(Image.open(root / "all" / f"{number}.png")) for number in (1, 3, 5, 0, 2, 4)]
    np.testing.assert_array_equal(raw.train.pixels.numpy(), np.stack(wanted))
    # The order of the lines, the mark of Excel and its semicolons say nothing.
    rows = [row.replace(",", ";") for row in reversed(ROWS)]
    other = read(root, *rows, head="\ufefffile;class;part", split="part")
    assert other.sha256 == raw.sha256
    # Without parts, the test is cut off each class.
    assert len(read(root, *ROWS).test) == 2 and "2 classes of 8 images" in other.notes[0]


def test_columns_are_found_by_their_usual_names_or_named(root):
    raw = read(root, *ROWS, split="part")
    named = read(root, *ROWS, head="Filename,Label,part", split="part")
    assert named.sha256 == raw.sha256
    odd = read(root, *ROWS, head="foto,was,wohin", image="foto", label="was", split="wohin")
    assert odd.sha256 == raw.sha256
    assert read(root, *ROWS, head="file,class,Split", split="split").sha256 == raw.sha256
    rows = [row.replace(",", ",none,", 1) for row in ROWS]
    both = read(root, *rows, head="file,Class,class,part", label="class", split="part")
    assert both.sha256 == raw.sha256


def test_files_outside_the_root_are_told_apart_by_their_whole_names(root):
    labels = root / "labels"
    for place, grey in (("v1", 60), ("v2", 160), ("labels", 20)):
        for number in range(8):
            path = save(root / place / f"{number}.bmp", np.full((8, 8), grey + number, np.uint8))
            os.utime(path, (10**9, 10**9))
    for place, grey in (("../v1/", 60), ("../v2/", 160), ("", 20), (f"{root}/v1/", 60)):
        rows = [f"{place}{row.replace('png', 'bmp')}" for row in ROWS]
        (labels / "labels.csv").write_text("\n".join(["file,class,part", *rows]))
        raw = ImageTable(root=str(labels), split="part", channels=1).read()
        assert raw.train.images.min() == grey


MISTAKES = {
    "9.png,ant,train": "labels.csv line 10: file is '9.png', and .*/all/9.png is no file: correct or remove",
    "0.png,,train": "labels.csv line 10 has no class: fill or remove it",
    "0.png,ant|bee,train": r"line 10: class is 'ant\|bee', several classes: training is on one class",
    "0.png,bee,holdout": "line 10: part is 'holdout', not train, val or test: correct it",
    "0.png,ant,train": "lines 2 and 10 are both .*/0.png, bee and ant: keep one; training is on one class",
    "more.png,cow,test": "line 10: 'cow' has no training image: add some, or remove the line",
    "more.png,ant, red,train": "line 10 has more values than columns: put one that contains ',' in quotes",
    'more.png,"ant,train': r"line 10 is no line of a CSV \(.*\): correct its quotes",
    'more.png,"ant"s,train': r"line 10 is no line of a CSV \(.*\): correct its quotes",
    "more.heic,ant,train": "line 10: 'more.heic' is no picture that is read .*: save it as JPEG or PNG",
}


@pytest.mark.parametrize("row", MISTAKES)
def test_a_mistake_is_named_by_its_line_and_value(root, row):
    for name in ("more.png", "more.heic"):
        (root / "all" / name).write_bytes((root / "all" / "0.png").read_bytes())
    with pytest.raises(DataError, match=MISTAKES[row]):
        read(root, *ROWS, row, split="part")


def test_a_class_may_have_commas_in_quotes_and_accents_of_both_kinds(root):
    names = ['"caf\u00e9, red"', '"cafe\u0301, red"', '"tea"', "tea"] * 2
    rows = [f"{n}.png, {name},train," for n, name in enumerate(names)]
    assert read(root, *rows).classes == ("caf\u00e9, red", "tea")


def test_a_missing_table_or_column_is_named(root):
    with pytest.raises(DataError, match=r"cannot read .*none.csv .*name a CSV .* by data.table="):
        ImageTable(root=str(root), table="none.csv").read()
    for options, said in (
        ({"head": "a,b,c"}, "data.image must name a column of .*, got None: choose from a, b, c"),
        ({"head": "file,label,class"}, "data.label must name a column .*: choose from label, class"),
        ({"split": "set"}, "data.split must name a column .*, got set: choose from file, class, part"),
    ):
        with pytest.raises(ValueError, match=said):
            read(root, *ROWS, **options)
    with pytest.raises(DataError, match="lists no image: add a line for each"):
        read(root)
    (root / "all" / "labels.csv").write_bytes(b"file,class\n\xff\xfe,a")
    with pytest.raises(DataError, match=r"is no table of text in UTF-8 .*: save it as CSV"):
        ImageTable(root=str(root), table="all/labels.csv").read()


def test_the_same_picture_in_two_classes_is_named(root):
    (root / "all" / "2.png").write_bytes((root / "all" / "1.png").read_bytes())
    said = "the same picture in two classes: all/1.png and all/2.png; remove one of them"
    assert said in read(root, *ROWS, split="part").notes
    (root / "all" / "5.png").write_bytes((root / "all" / "1.png").read_bytes())
    assert said in read(root, *ROWS, split="part").notes


def test_the_same_picture_in_two_classes_is_found_behind_one_with_the_same_sums(root):
    pixels = np.array(Image.open(root / "all" / "1.png"))
    for number in (0, 3):
        Image.fromarray(pixels[::-1]).save(root / "all" / f"{number}.png")
    said = "the same picture in two classes: all/3.png and all/0.png; remove one of them"
    assert said in read(root, *ROWS, split="part").notes


@pytest.mark.skipif(not features.check("avif"), reason="Pillow without AVIF")
def test_avif_is_read_and_heic_is_named_in_folders(tmp_path):
    for name in ("ant", "bee"):
        for number in range(3):
            save(tmp_path / name / f"{number}.avif", noise(16, 16, 3), quality=100)
        (tmp_path / name / "x.HEIC").write_bytes(b"x")
    dataset = data.build("image_folder", root=str(tmp_path), val_size=0)
    assert len(dataset.train) + len(dataset.test) == 6 and dataset.size == (16, 16)
    assert "pictures that are not read: .heic (2); save them as JPEG or PNG" in dataset.notes
    for path in tmp_path.glob("*/*.avif"):
        path.unlink()
    with pytest.raises(DataError, match=r"no folder of images \(pictures that are not read: .heic"):
        data.build("image_folder", root=str(tmp_path))


def test_data_of_objects_or_of_several_classes_are_refused_with_what_to_do(tmp_path):
    (tmp_path / "annotations").mkdir()
    (tmp_path / "annotations" / "instances.json").write_text("{}")
    (tmp_path / "train2017").mkdir()
    said = "annotations/instances.json lists objects in images, .* CSV for data=image_table data.table=CSV"
    with pytest.raises(DataError, match=said):
        data.build("image_folder", root=str(tmp_path))
    with pytest.raises(ValueError, match=r"got 'CocoDetection'.* CSV for data=image_table data.table=CSV"):
        data.build("torchvision", dataset="CocoDetection")
