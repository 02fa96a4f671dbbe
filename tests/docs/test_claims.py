"""The page of textbook sentences: estimates worked by hand, and the page that is committed."""

import math
import statistics
from base64 import b64encode
from pathlib import Path

import numpy as np
import pytest

from cnnpool.report.statistics import Crossed
from scripts.docs import claims
from scripts.docs.claims import Sentence

DOCS = Path(__file__).parents[2] / "docs"
HIGHER = (0.0, math.inf)


def sentence(rows, column="test.accuracy", **options):
    return Sentence("Text.", "measured", rows, column, **options)


def test_an_interval_is_that_of_student():
    alone = claims.estimate([1.0, 2.0, 3.0])
    # sd 1, t(0.975, 2) = 4.303, / sqrt(3) = 2.484.
    assert (alone.mean, alone.low, alone.high) == pytest.approx((2.0, -0.484, 4.484), abs=1e-3)
    assert alone.cell("+") == "+2.00 [-0.48, +4.48], n = 3"
    assert claims.estimate([0.99]).cell("") == "0.99"


def test_the_whole_interval_decides():
    for values, word in (
        ([1.0, 1.1, 1.2], "yes"),
        ([-1.0, -1.1, -1.2], "no"),
        ([-1.0, 1.1, 0.2], "open"),
    ):
        assert claims.estimate(values).agrees(HIGHER) == word


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"digits": 1, "MNIST": 1}, "So"),
        ({"digits": -1, "MNIST": -1}, "The reverse"),
        ({"digits": 0}, "Open"),
        ({"digits": 1, "MNIST": 0}, "Open; so for a – b (digits)"),
        ({"digits": 1, "MNIST": 1, "CIFAR-10 (JPEG)": 0}, "Mostly so; open for a – b (CIFAR-10 (JPEG))"),
        ({"digits": 0, "MNIST": 1, "CIFAR-10 (JPEG)": 0}, "Open; so for a – b (MNIST)"),
        ({"digits": 1, "MNIST": -1}, "It depends; so for a – b (digits); the reverse for a – b (MNIST)"),
        (
            {"digits": -1, "MNIST": -1, "MNIST, 1,000 images": -1, "CIFAR-10 (JPEG)": 1},
            "Mostly the reverse; so for a – b (CIFAR-10 (JPEG))",
        ),
    ],
)
def test_an_answer_names_the_places_that_deviate(numbers, said):
    found = {("a – b", data): claims.estimate([x - 0.1, x, x + 0.1]) for data, x in numbers.items()}
    assert claims.answer(sentence({"a – b": HIGHER}), found) == said


def test_a_level_that_is_missed_is_no_reverse():
    found = {("max", "MNIST"): claims.estimate([0.4, 0.5, 0.6])}
    assert claims.answer(sentence({"max": (99.0, 100.0)}), found) == "Not so"


@pytest.fixture
def docs(tmp_path):
    """One published sweep, on MNIST, whose runs say which of four images they got right."""
    for folder in claims.SWEEPS:
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "runs.csv").write_text("choice,seed,test.accuracy\n")
    runs = "max,0,0.75\nmax,1,1\nmax,2,0.75\nmax,3,0.5\navg,0,0.5\navg,1,0.5\navg,2,0.25\n"
    (tmp_path / "mnist_operators" / "runs.csv").write_text(f"choice,seed,test.accuracy\n{runs}")
    return tmp_path


def test_a_difference_is_paired_by_seed(docs):
    found = claims.estimates(sentence({"max – avg": HIGHER}), docs)["max – avg", "MNIST"]
    # 25, 50 and 50 points: sd 14.43, / sqrt(3) = 8.33, t(0.975, 2) = 4.303.
    assert found.n == 3
    assert (found.mean, found.low) == pytest.approx((41.667, 41.667 - 35.86), abs=0.01)


def test_an_interval_of_accuracies_covers_the_images_where_they_are_known(docs):
    rows = ["choice,seed,images,bits"]
    for choice, seeds in {"max": (0xE0, 0xF0, 0xD0), "avg": (0xA0, 0x60, 0x20)}.items():
        rows += [f"{choice},{n},4,{b64encode(bytes([one])).decode()}" for n, one in enumerate(seeds)]
    (docs / "mnist_operators" / "correct.csv").write_text("\n".join(rows))
    asked = sentence({"max – avg": HIGHER})
    values, both = claims.of_runs(asked, docs)["max – avg", "MNIST"]
    # By image and seed, max less avg is 0 1 0 0 / 1 0 0 1 / 1 1 -1 1, so by image 2/3, 2/3, -1/3, 2/3.
    table = np.array([[0, 1, 0, 0], [1, 0, 0, 1], [1, 1, -1, 1]])
    by_seed, by_image = statistics.variance(values) / 3, 100**2 * table.mean(0).var(ddof=1) / 4
    left = table - table.mean(0) - table.mean(1)[:, None] + table.mean()
    rest = 100**2 * (left**2).sum() / (2 * 3) / 12
    whole = by_seed + by_image - rest
    freedom = max(2, whole**2 / (by_seed**2 / 2 + by_image**2 / 3 + rest**2 / 6))
    assert claims.error(values, both) == pytest.approx((whole, freedom))
    # Never narrower than by the seeds alone, whose variance is (9 + 4 + 25) / 2.
    assert claims.error([1.0, 2.0, 9.0], Crossed(3, 4, 1e-4, 1e-4, 0.0)) == pytest.approx((19 / 3, 2))


def test_the_page_is_that_of_the_published_runs():
    assert (DOCS / "claims.md").read_text("utf-8") == claims.page(), "run scripts/docs/claims.py"


def test_an_estimate_agrees_with_the_report_of_its_sweep():
    asked = sentence({"avg – max": HIGHER, "conv_blur – max": HIGHER})
    found = claims.estimates(asked, DOCS)
    for folder in ("mnist_operators", "mnist_few/200"):
        text = (DOCS / folder / "report.md").read_text("utf-8")
        for one in (found[row, claims.SWEEPS[folder]] for row in asked.rows):
            assert f"{one.mean:+.2f} \\[{one.low:+.2f}, {one.high:+.2f}\\]" in text
