"""Numbers that operators hold fixed or learn, and strides that need not be whole."""

import math
from fractions import Fraction as Ratio

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from cnnpool.pool import FractionalMaxPool2d, SpectralPool2d
from cnnpool.pool.scalar import Fraction, Positive


@settings(max_examples=50)
@given(value=st.floats(1e-3, 1e3), above=st.sampled_from([0.0, 1.0]))
def test_positive_starts_at_its_value(value, above):
    x = torch.zeros(1, dtype=torch.float32)
    fixed = Positive("p", above + value, 2, learnable=False, above=above)
    learnt = Positive("p", above + value, 2, learnable=True, above=above)
    assert fixed(x) == above + value and not list(fixed.parameters())
    assert_close(learnt(x), torch.full((2, 1, 1), above + value))


@settings(max_examples=50)
@given(value=st.floats(1e-3, 1 - 1e-3))
def test_fraction_starts_at_its_value(value):
    x = torch.zeros(1)
    assert Fraction("mix", value, (3, 1, 1), learnable=False)(x) == value
    assert_close(Fraction("mix", value, (3, 1, 1), learnable=True)(x), torch.full((3, 1, 1), value))


@pytest.mark.parametrize("raw", [-80.0, 80.0])
def test_learnt_numbers_stay_in_range_however_far_the_raw_one_goes(raw):
    x = torch.zeros(1)
    positive, fraction = Positive("p", 3.0, 1, learnable=True), Fraction("mix", 0.5, (1,), learnable=True)
    with torch.no_grad():
        positive.raw.fill_(raw), fraction.raw.fill_(raw)
    assert 0 < positive(x).item() < float("inf")
    assert 0 <= fraction(x).item() <= 1


def test_learnt_numbers_are_one_dimensional_and_take_the_type_of_the_map():
    # Recipes exempt one-dimensional parameters from weight decay, which would pull p towards softplus(0).
    for scalar in (Positive("p", 3.0, 4, learnable=True), Fraction("mix", 0.5, (4, 1, 1), learnable=True)):
        assert scalar.raw.dim() == 1
        assert scalar.bfloat16()(torch.zeros(1)).dtype == torch.float32


@given(st.integers(2, 200), st.integers(1, 199))
@settings(max_examples=200)
def test_any_smaller_size_is_reached_by_the_quotient_of_the_sizes(length, size):
    size = min(size, length - 1)
    for operator in (SpectralPool2d, FractionalMaxPool2d):
        assert operator(1, stride=length / size).output_size(length, 3 * length) == (size, 3 * size)


@given(st.integers(1, 500), st.integers(1, 99), st.integers(1, 99))
@settings(max_examples=200)
def test_sizes_are_rounded_as_exact_fractions_are(length, p, q):
    exact = length / (Ratio(p, q) + 1)
    assert SpectralPool2d(1, stride=(p / q + 1, 1.0)).output_size(length, 7) == (math.ceil(exact), 7)
    if exact >= 1:
        size = FractionalMaxPool2d(1, stride=(p / q + 1, 2.0)).output_size(length, 7)
        assert size == (math.floor(exact), 3)


def test_decimals_are_read_as_written():
    assert SpectralPool2d(1, stride=(1.414, 2)).ratio == ((707, 500), (2, 1))
    assert SpectralPool2d(1, stride=(1.414, 2.7)).stride == (1, 3)
