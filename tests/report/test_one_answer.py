import pytest

from cnnpool.report import find
from cnnpool.report.columns import measure_columns
from cnnpool.report.comparison import compare
from cnnpool.report.one_answer import answers_one_class

COUNTS = {"classes": ["a", "b", "c"], "train": [1, 1, 1], "val": [0, 0, 0], "test": [30, 60, 30]}


@pytest.mark.parametrize(
    ("accuracy", "shares", "expected"),
    [
        (0.25, {"distinct": 1.0, "aps_cifar": 1.0}, True),
        (0.5, {"distinct": 1.0}, True),
        (0.5, {"distinct": 1.0, "aps_cifar": 0.999}, False),
        # 31 of 120 images: no class has so many.
        (31 / 120, {"distinct": 1.0}, False),
        (0.5, {}, False),
    ],
)
def test_it_answers_one_class_if_no_shift_matters_and_one_class_is_right(shelf, accuracy, shares, expected):
    shelf.put(accuracy=accuracy, images=COUNTS, invariance={"consistency": shares})
    [run] = find([shelf.root])
    assert answers_one_class(run) is expected


def test_without_counts_of_images_nobody_knows(shelf):
    shelf.put(accuracy=0.5, invariance={"consistency": {"distinct": 1.0}})
    [run] = find([shelf.root])
    assert not answers_one_class(run)


def test_such_a_choice_is_marked_and_explained(shelf):
    for seed in (0, 1):
        shelf.put(accuracy=0.5, seed=seed, images=COUNTS, invariance={"consistency": {"distinct": 1.0}})
        shelf.put(pool="avg", accuracy=0.9, seed=seed, images=COUNTS)
    comparison = compare(find([shelf.root]), against="avg")
    cells = {column.header: column.cells for column in measure_columns(comparison)}
    assert cells["consistency (distinct) (%)"] == ["95.00", "100.00 *"]
    assert comparison.notes == [
        "max *: seems to answer one class for all images with seed 0, 1; consistency says nothing there"
    ]
