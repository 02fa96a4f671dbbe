"""Data sets by the package ``datasets``, from Parquet files and folders that the tests write."""

import io
from unicodedata import normalize

import numpy as np
import pytest
from pictures import save
from PIL import Image

from cnnpool import data
from cnnpool.data import DataError, HuggingFace

datasets = pytest.importorskip("datasets", reason="needs pip install 'cnnpool[huggingface]'")
pyarrow = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")
# The package dill says so of types of pyarrow, which it leaves out.
pytestmark = pytest.mark.filterwarnings("ignore:Cannot (locate|pickle)")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")
    datasets.disable_progress_bars()


def pixels(seed: int, height: int = 20, width: int = 24) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def encoded(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(array).save(file, "PNG")
    return file.getvalue()


def write(path, labels, kind=None, seed=0, **more):
    """A Parquet file of an image for each label: its column is called picture."""
    images = [{"bytes": encoded(pixels(seed + i)), "path": None} for i in range(len(labels))]
    columns = {"picture": images, "kind": labels, **more}
    features = {"picture": datasets.Image(), "kind": kind or datasets.ClassLabel(names=["ant", "bee", "fly"])}
    features |= {name: datasets.ClassLabel(names=["a", "b"]) for name in more}
    path.parent.mkdir(parents=True, exist_ok=True)
    schema = datasets.Features(features).arrow_schema
    pyarrow.parquet.write_table(pyarrow.table(columns, schema=schema), path)


def read(tmp_path, path, **options):
    return HuggingFace(root=str(tmp_path / "decoded"), path=str(path), **options).read()


@pytest.fixture
def insects(tmp_path):
    folder = tmp_path / "insects"
    for part, count in (("train", 12), ("validation", 3), ("test", 6)):
        write(folder / f"{part}-00000-of-00001.parquet", [i % 3 for i in range(count)], seed=100 * count)
    return folder


def test_images_labels_and_classes_are_those_of_the_files(tmp_path, insects):
    raw = read(tmp_path, insects)
    assert raw.classes == ("ant", "bee", "fly") and raw.train.shape == (3, 20, 24)
    for split, count in ((raw.train, 12), (raw.val, 3), (raw.test, 6)):
        assert split.labels.tolist() == [i % 3 for i in range(count)]
        assert np.array_equal(split.pixels.numpy(), [pixels(100 * count + i) for i in range(count)])
    assert "train (12), validation (3), test (6); images in picture, classes in kind" in raw.notes[0]
    # Without test images those of validation are.
    (insects / "test-00000-of-00001.parquet").unlink()
    raw = read(tmp_path, insects)
    assert raw.val is None and len(raw.test) == 3


def test_one_file_is_cut_into_training_and_test_images(tmp_path):
    path = tmp_path / "all.parquet"
    write(path, [i % 2 * 2 for i in range(20)])
    raw = read(tmp_path, path)
    assert raw.classes == ("ant", "fly") and raw.test.labels.bincount().tolist() == [2, 2]
    # Nor need the only split be called train.
    write(tmp_path / "one" / "test.parquet", [0, 1] * 10)
    assert len(read(tmp_path, tmp_path / "one").train) == 16
    assert data.build("huggingface", path=str(path), root=str(tmp_path / "d")).counts["test"] == [2, 2]


@pytest.mark.parametrize(
    ("kind", "labels", "names"),
    [
        ("string", ["no", "yes", "no", "maybe"] * 5, ("maybe", "no", "yes")),
        ("string", ["caf\u00e9", "cafe\u0301", "tea", "tea"] * 5, ("caf\u00e9", "tea")),
        ("int64", [30, 4, 4, 30] * 5, ("4", "30")),
    ],
)
def test_labels_may_be_texts_or_numbers(tmp_path, kind, labels, names):
    path = tmp_path / "all.parquet"
    write(path, labels, datasets.Value(kind))
    raw = read(tmp_path, path, label="kind")
    assert raw.classes == names
    found = [names[label] for split in raw.splits.values() for label in split.labels.tolist()]
    assert sorted(found) == sorted(normalize("NFC", str(label)) for label in labels)
    table = pyarrow.parquet.read_table(path).rename_columns(["image", "label"])
    pyarrow.parquet.write_table(table.replace_schema_metadata(None), path)
    assert read(tmp_path, path).classes == names


def test_other_images_in_a_file_of_the_same_name_are_read_anew_where_they_are_kept_in_memory(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(datasets.config, "IN_MEMORY_MAX_SIZE", 10**9)
    found = []
    for seed in (0, 100):
        write(tmp_path / "insects.parquet", [0, 1, 2] * 4, seed=seed)
        found.append(read(tmp_path, tmp_path / "insects.parquet").sha256)
    assert found[0] != found[1]


def test_a_folder_of_images_is_read_by_class_as_the_library_does(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for part, count in (("train", 3), ("test", 2)):
        for label, name in enumerate(("ant", "bee")):
            for i in range(count):
                save(tmp_path / "photos" / part / name / f"{i}.png", pixels(10 * label + i))
    raw = read(tmp_path, "~/photos")
    assert raw.classes == ("ant", "bee") and raw.train.labels.tolist() == [0] * 3 + [1] * 3
    assert np.array_equal(raw.train.pixels[4].numpy(), pixels(11))


def test_a_row_names_no_file_of_this_machine(tmp_path, insects):
    path, secret = insects / "train-00000-of-00001.parquet", save(tmp_path / "secret.png", pixels(1))
    table = pyarrow.parquet.read_table(path)
    field, images = table.field("picture"), table["picture"].to_pylist()
    images[5] = {"bytes": None, "path": str(secret)}
    place = table.column_names.index("picture")
    pyarrow.parquet.write_table(table.set_column(place, field, pyarrow.array(images, field.type)), path)
    with pytest.raises(DataError, match="row 5 of the split train holds no image, but the name of a file"):
        read(tmp_path, insects)


def test_what_is_not_there_is_refused_in_a_line(tmp_path, insects):
    for options, said in (
        ({"image": "pictur"}, "data.image must name a column, got pictur: choose from picture, kind"),
        ({"test": "tes"}, "data.test must be a split, got 'tes'; did you mean 'test'"),
        ({"label": "picture"}, "data.label must be a column of names or numbers, got 'picture'"),
    ):
        with pytest.raises(ValueError, match=said):
            read(tmp_path, insects, **options)
    with pytest.raises(
        DataError, match=r"data.path=.*/nothing cannot be read by datasets \(.*\): give a name"
    ):
        read(tmp_path, tmp_path / "nothing")
    (insects / "train-00000-of-00001.parquet").unlink()
    with pytest.raises(DataError, match=r"has no split called train, but .*: choose one by data.train"):
        read(tmp_path, insects)


def test_one_of_several_columns_of_classes_must_be_chosen(tmp_path):
    path = tmp_path / "all.parquet"
    write(path, [i % 3 for i in range(20)], coarse=[i % 2 for i in range(20)])
    with pytest.raises(
        ValueError, match=r"data\.label must name a column, got None: choose from kind, coarse"
    ):
        read(tmp_path, path)
    assert read(tmp_path, path, label="coarse").classes == ("a", "b")


def test_test_images_without_labels_are_named(tmp_path, insects):
    path = insects / "test-00000-of-00001.parquet"
    write(path, [-1] * 6)
    with pytest.raises(
        DataError, match=r"row 0 of the split test has no label: .* another split by data.test"
    ):
        read(tmp_path, insects)
    assert len(read(tmp_path, insects, test="validation").test) == 3
    write(insects / "train-00000-of-00001.parquet", [0, 1, -1])
    with pytest.raises(DataError, match=r"row 2 of the split train has no label: fill .* by data.train, or"):
        read(tmp_path, insects, test="validation")
