import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cnnpool import pool
from cnnpool.probe.gradient import StageRouting, sparsity
from cnnpool.probe.gradient_taps import Tap


def routed(gradient):
    """The results of a stage of stride 2 that gets ``gradient``, in two parts."""
    found = StageRouting(pool.build("subsample", 1), 1e-3)
    for some in gradient.split((len(gradient) + 1) // 2):
        found.add(Tap(torch.zeros_like(some), some, None))
    return found.result()


def coverage(gradient):
    result = routed(gradient)
    return {key: result[key] for key in ("coverage", "coverage_iid")}


def test_sparsity_of_a_hand_worked_gradient():
    gradient = torch.tensor([[0.0, 1.0, 0.0005, 0.0], [0.0, 0.0, -2.0, 0.0]]).reshape(2, 1, 2, 2)
    result = sparsity(gradient, epsilon=1e-3)
    assert result["zero_fraction"] == 5 / 8
    assert result["small_fraction"] == 6 / 8
    # First sample: (1.0005)^2 / (4 * 1.00000025); second: one entry of four.
    first = 1.0005**2 / (4 * (1 + 0.0005**2))
    assert result["participation_ratio"] == pytest.approx((first + 1 / 4) / 2, rel=1e-6)
    hoyer = (2 - 1.0005 / math.sqrt(1 + 0.0005**2)) / (2 - 1)
    assert result["hoyer"] == pytest.approx((hoyer + 1) / 2, rel=1e-6)


def test_equal_entries_participate_by_their_share():
    for ones, ratio in [(1, 1 / 16), (4, 1 / 4), (16, 1.0)]:
        gradient = torch.zeros(1, 1, 4, 4)
        gradient.view(-1)[:ones] = -1e-30
        result = sparsity(gradient)
        assert result["participation_ratio"] == pytest.approx(ratio)
        assert result["hoyer"] == pytest.approx((4 - math.sqrt(ones)) / 3, abs=1e-12)


@given(st.integers(0, 10_000), st.floats(-6, 6))
@settings(max_examples=30)
def test_sparsity_is_the_slow_obvious_number_at_any_scale(seed, exponent):
    gradient = torch.randn(3, 2, 3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    gradient[gradient.abs() < 0.3] = 0
    result = sparsity(gradient * 10**exponent, 0.5)
    expected = {key: [] for key in result}
    for sample in gradient.numpy().reshape(3, -1):
        a, n = np.abs(sample), sample.size
        expected["zero_fraction"].append((a == 0).mean())
        expected["small_fraction"].append((a <= 0.5 * a.max()).mean())
        expected["participation_ratio"].append(a.sum() ** 2 / (n * (a**2).sum()))
        expected["hoyer"].append((n**0.5 - a.sum() / (a**2).sum() ** 0.5) / (n**0.5 - 1))
    assert result == pytest.approx({key: np.mean(value) for key, value in expected.items()}, rel=1e-9)


def test_a_gradient_of_zeros_is_as_sparse_as_can_be_and_covers_nothing():
    zeros = torch.zeros(2, 1, 2, 2)
    ones = dict.fromkeys(("zero_fraction", "small_fraction", "hoyer"), 1.0)
    assert sparsity(zeros) == ones | {"participation_ratio": 0.0}
    assert coverage(zeros) == {"coverage": 0.0, "coverage_iid": 0.0}


def test_coverage_of_a_hand_worked_batch():
    gradient = torch.tensor([[0.0, 1.0, 2.0, 0.0], [0.0, 0.0, -2.0, 0.0]]).reshape(2, 1, 2, 2)
    # Two of four inputs are reached; three of eight entries are not zero, so 1 - (5/8)^2 if independent.
    assert coverage(gradient) == {"coverage": 2 / 4, "coverage_iid": 1 - (5 / 8) ** 2}


def test_independent_choices_cover_as_the_theory_says():
    for samples, expected in [(1, 0.25), (2, 0.4375), (4, 0.684), (8, 0.900)]:
        generator = torch.Generator().manual_seed(0)
        result = coverage((torch.rand(samples, 1, 400, 400, generator=generator) < 0.25).double())
        # 160,000 inputs: standard deviation at most 0.00125.
        assert result["coverage"] == pytest.approx(expected, abs=0.005)
        assert result["coverage_iid"] == pytest.approx(result["coverage"], abs=0.005)


def test_phases_served_alike_are_balanced_and_a_single_one_is_not():
    assert routed(torch.ones(2, 3, 8, 6))["phase_imbalance"] == 0.0
    single = torch.zeros(2, 3, 8, 6)
    single[..., ::2, ::2] = -1.0
    assert routed(single)["phase_imbalance"] == pytest.approx(math.sqrt(3))
    assert routed(torch.zeros(1, 1, 4, 4))["phase_imbalance"] == 0.0


def test_a_strided_3x3_convolution_serves_its_phases_one_two_two_four():
    x = torch.zeros(1, 1, 12, 12, requires_grad=True)
    weight = torch.ones(1, 1, 3, 3)
    # Circular, so that borders do not blur the counts.
    padded = torch.nn.functional.pad(x, (1, 1, 1, 1), mode="circular")
    torch.nn.functional.conv2d(padded, weight, stride=2).sum().backward()
    counts = np.array([1, 2, 2, 4])
    assert routed(x.grad)["phase_imbalance"] == pytest.approx(counts.std() / counts.mean())
