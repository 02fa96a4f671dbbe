"""The page of textbook sentences: estimates worked by hand, and the page that is committed."""

import math
from pathlib import Path

import pytest

from scripts.docs import claims
from scripts.docs.claims import Sentence

DOCS = Path(__file__).parents[2] / "docs"
HIGHER = (0.0, math.inf)


def sentence(rows, **options):
    return Sentence("key", "Text.", "measured", rows, **options)


def test_an_interval_is_that_of_student_and_settings_count_alike():
    alone = claims.estimate([[1.0, 2.0, 3.0]])
    # sd 1, t(0.975, 2) = 4.303, / sqrt(3) = 2.484.
    assert (alone.mean, alone.low, alone.high) == pytest.approx((2.0, -0.484, 4.484), abs=1e-3)
    both = claims.estimate([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0, 6.0, 3.0, 6.0]])
    # Variances of the means 1/3 and 1.9/6; freedom 0.65² / (0.1111/2 + 0.1003/5) = 5.587, t = 2.491.
    half = 2.491 * math.sqrt(0.65) / 2
    assert (both.mean, both.low, both.high) == pytest.approx((3.25, 3.25 - half, 3.25 + half), abs=1e-3)


def test_the_range_is_given_where_the_intervals_of_two_settings_do_not_meet():
    # Variances of the means 0.00333 and 0.00778, freedom 3.448, t = 2.96: half 0.156.
    alike, apart = [[1.0, 1.2, 1.1], [1.1, 1.0, 1.3]], [[1.0, 1.2, 1.1], [2.1, 2.0, 2.3]]
    assert claims.estimate(alike).cell("+") == "+1.12 [+0.96, +1.27], n = 3, 3"
    assert claims.estimate(apart).cell("+").endswith("n = 3, 3 (+1.10 to +2.13)")
    assert claims.estimate([[0.99], [0.99]]).cell("") == "0.99"


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ([[1.0, 1.1, 1.2]], "yes"),
        ([[-1.0, -1.1, -1.2]], "no"),
        ([[-1.0, 1.1, 0.2]], "open"),
        ([[1.0, 1.1, 1.2], [-1.0, -1.1, -1.2]], "differs"),
    ],
)
def test_the_whole_interval_decides(settings, word):
    assert claims.estimate(settings).agrees(HIGHER) == word


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"digits": 1, "MNIST": 1}, "So"),
        ({"digits": -1, "MNIST": -1}, "The reverse"),
        ({"digits": 0}, "Open"),
        ({}, "No published run measures it"),
        ({"digits": 1, "MNIST": 0}, "So; open for a – b (MNIST)"),
        ({"digits": 1, "MNIST": -1}, "It depends; so for a – b (digits); the reverse for a – b (MNIST)"),
        (
            {"digits": -1, "MNIST": -1, "MNIST, 1,000 images": -1, "CIFAR-10 (JPEG)": 1},
            "Mostly the reverse; so for a – b (CIFAR-10 (JPEG))",
        ),
    ],
)
def test_an_answer_names_the_places_that_deviate(numbers, said):
    found = {("a – b", data): claims.estimate([[x - 0.1, x, x + 0.1]]) for data, x in numbers.items()}
    assert claims.answer(sentence({"a – b": HIGHER}), found) == said


def test_a_level_that_is_missed_is_no_reverse():
    found = {("max", "MNIST"): claims.estimate([[0.4, 0.5, 0.6]])}
    assert claims.answer(sentence({"max": (99.0, 100.0)}), found) == "Not so"


@pytest.fixture
def docs(tmp_path):
    """One published sweep on MNIST, and cases of that and of another setting."""
    for folder in claims.SWEEPS:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "runs.csv").write_text("choice,seed,test.accuracy\n")
    runs = "max,0,0.9\nmax,1,0.8\nmax,2,0.7\navg,0,0.5\navg,1,0.6\n"
    (tmp_path / "mnist_operators" / "runs.csv").write_text(f"choice,seed,test.accuracy\n{runs}")
    (tmp_path / "claims.csv").write_text(
        "claim,says,when,runs,number,seed 0,seed 1\n"
        'key,no,,"mnist, convnet, flatten: max 2/2 – avg 2/2",accuracy,0.99,0.99\n'
        'key,no,,"mnist, convnet, gap: max 2/2 – avg 2/2",accuracy,0.1,\n'
        'key,no,,"mnist, convnet, gap: max 2/2 – avg 2/2",loss,7,7\n'
        'key,no,,"digits, convnet, gap: max 2/2, stage s1",accuracy,0.1,0.2\n'
        'key,no,,"digits, convnet, gap: max 2/2, stage s2",accuracy,0.3,0.6\n'
    )
    return tmp_path


def test_a_difference_is_paired_by_seed_and_published_runs_count_once(docs):
    asked = sentence({"max – avg": HIGHER}, column="test.accuracy", number="accuracy")
    found = claims.estimates(asked, docs)["max – avg", "MNIST"]
    assert [one.n for one in found.settings] == [2, 1]
    assert [one.mean for one in found.settings] == pytest.approx([30.0, 10.0])


def test_stages_are_taken_together_by_seed(docs):
    found = claims.estimates(sentence({"max": (0.0, 1.0)}, number="accuracy"), docs)["max", "digits"]
    # Means of the two stages: 20 and 40 %.
    assert (found.mean, found.settings[0].n) == (pytest.approx(30.0), 2)


def test_the_page_is_that_of_the_published_runs():
    assert (DOCS / "claims.md").read_text("utf-8") == claims.page(), "run scripts/docs/claims.py"


def test_an_estimate_agrees_with_the_report_of_its_sweep():
    text = (DOCS / "cifar_operators" / "report.md").read_text("utf-8")
    asked = sentence({"avg – max": HIGHER}, column="test.accuracy")
    found = claims.of_runs(asked, DOCS)["avg – max", claims.CIFAR]
    # Of the three sweeps on CIFAR-10 this one alone has another recipe.
    values = next(one for name, one in found.items() if "data.crop=2" in name)
    one = claims.estimate([values])
    assert f"{one.mean:+.2f} \\[{one.low:+.2f}, {one.high:+.2f}\\]" in text
