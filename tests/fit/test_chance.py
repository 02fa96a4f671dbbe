import pytest

from cnnpool.fit.chance import warning


@pytest.mark.parametrize(
    ("accuracy", "counts", "said"),
    [
        (0.25, [25, 25, 25, 25], True),
        (0.10, [25, 25, 25, 25], True),
        # Two standard errors of a share of 1/4 of 100 images: 2 * sqrt(0.25 * 0.75 / 100) = 0.0866.
        (0.336, [25, 25, 25, 25], True),
        (0.337, [25, 25, 25, 25], False),
        (0.90, [90, 10], True),
        (0.97, [90, 10], False),
        (1.0, [100, 0], False),
        (1.0, [7], False),
    ],
)
def test_what_chance_reaches_is_said(accuracy, counts, said):
    text = warning(accuracy, counts)
    assert bool(text) == said
    if said:
        assert f"accuracy {100 * accuracy:.1f} %" in text
        assert f"{100 * max(counts) / sum(counts):.1f} % by always naming the commonest class" in text
