"""Strides that need not be whole numbers, against exact fractions."""

import math
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from cnnpool.pool.rational import fractions, rounded_down, rounded_up, whole


@given(st.integers(1, 200), st.integers(1, 200))
@settings(max_examples=200)
def test_any_smaller_size_is_reached_by_the_quotient_of_the_sizes(length, size):
    length, size = max(length, size), min(length, size)
    stride = fractions(length / size)
    assert (
        rounded_up(length, 3 * length, stride) == rounded_down(length, 3 * length, stride) == (size, 3 * size)
    )


@given(st.integers(1, 500), st.integers(1, 99), st.integers(1, 99))
@settings(max_examples=200)
def test_sizes_are_rounded_as_exact_fractions_are(length, p, q):
    stride = fractions((p / q + 1, 1.0))
    exact = length / (Fraction(p, q) + 1)
    assert rounded_up(length, 7, stride) == (math.ceil(exact), 7)
    assert rounded_down(length, 7, stride) == (math.floor(exact), 7)


def test_decimals_are_read_as_written():
    assert fractions((1.414, 2)) == ((707, 500), (2, 1))
    assert whole(fractions((1.414, 2.7))) == (1, 3)
