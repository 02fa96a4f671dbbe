"""Numbers that operators hold fixed or learn."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

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
