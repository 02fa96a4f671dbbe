"""Strides that need not be whole numbers, against exact fractions."""

import math
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from cnnpool.pool import FractionalMaxPool2d, SpectralPool2d


@given(st.integers(2, 200), st.integers(1, 199))
@settings(max_examples=200)
def test_any_smaller_size_is_reached_by_the_quotient_of_the_sizes(length, size):
    size = min(size, length - 1)
    for operator in (SpectralPool2d, FractionalMaxPool2d):
        assert operator(1, stride=length / size).output_size(length, 3 * length) == (size, 3 * size)


@given(st.integers(1, 500), st.integers(1, 99), st.integers(1, 99))
@settings(max_examples=200)
def test_sizes_are_rounded_as_exact_fractions_are(length, p, q):
    exact = length / (Fraction(p, q) + 1)
    assert SpectralPool2d(1, stride=(p / q + 1, 1.0)).output_size(length, 7) == (math.ceil(exact), 7)
    if exact >= 1:
        size = FractionalMaxPool2d(1, stride=(p / q + 1, 2.0)).output_size(length, 7)
        assert size == (math.floor(exact), 3)


def test_decimals_are_read_as_written():
    assert SpectralPool2d(1, stride=(1.414, 2)).ratio == ((707, 500), (2, 1))
    assert SpectralPool2d(1, stride=(1.414, 2.7)).stride == (1, 3)
