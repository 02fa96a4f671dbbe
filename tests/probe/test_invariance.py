import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from cnnpool import model, pool, readout
from cnnpool.probe import ShiftInvariance
from cnnpool.probe.invariance import (
    answers,
    consistency,
    consistency_given_correct,
    relative_change,
    worst_shift_accuracy,
)
from cnnpool.probe.shift import PROTOCOLS, shift


def net(operator="avg", padding_mode="circular", size=(8, 8)):
    torch.manual_seed(0)
    return model.build(
        "convnet",
        1,
        size,
        3,
        pool=lambda stage, channels: pool.build(operator, channels),
        readout=lambda channels, size: readout.build("gap", channels, size),
        width=4,
        padding_mode=padding_mode,
    )


def images(n=5, size=8):
    return torch.randn(n, 1, size, size, generator=torch.Generator().manual_seed(3))


@given(st.integers(-9, 9), st.integers(-9, 9))
@settings(deadline=None, max_examples=40)
def test_a_circular_shift_is_a_roll(down, right):
    x = torch.arange(2 * 3 * 5 * 4).reshape(2, 3, 5, 4)
    assert np.array_equal(shift(x, down, right), np.roll(x.numpy(), (down, right), (2, 3)))


@given(st.integers(-6, 6), st.integers(-6, 6))
@settings(deadline=None, max_examples=40)
def test_a_shift_that_is_not_circular_lets_zeros_in(down, right):
    x = torch.arange(1, 1 + 2 * 5 * 4).reshape(2, 1, 5, 4)
    expected = np.zeros_like(x.numpy())
    for i in range(5):
        for j in range(4):
            if 0 <= i - down < 5 and 0 <= j - right < 4:
                expected[:, :, i, j] = x[:, :, i - down, j - right]
    assert np.array_equal(shift(x, down, right, circular=False), expected)


def test_every_image_moves_by_its_own_shift():
    x = images(3)
    moved = shift(x, torch.tensor([0, 1, -2]), torch.tensor([3, 0, 1]))
    for n, (down, right) in enumerate([(0, 3), (1, 0), (-2, 1)]):
        assert torch.equal(moved[n], x[n].roll((down, right), (1, 2)))


@pytest.mark.parametrize("name", PROTOCOLS)
def test_protocols_draw_within_their_bounds(name):
    protocol = PROTOCOLS[name]
    first, second = protocol.draw(4000, (16, 12), torch.Generator().manual_seed(0))
    for axis, length in enumerate((16, 12)):
        low, high = protocol.bounds(length)
        drawn = torch.cat((first[:, axis], second[:, axis]))
        assert low <= drawn.min() and drawn.max() <= high
    if protocol.per_image:
        assert first.unique(dim=0).shape[0] == 49
    else:
        assert first[: protocol.batch].unique(dim=0).shape[0] == 1
    if protocol.distinct:
        assert (first != second).any(1).all()


def test_the_aps_protocol_draws_minus_three_to_two():
    first, _ = PROTOCOLS["aps_cifar"].draw(256 * 400, (32, 32), torch.Generator().manual_seed(0))
    assert first.unique().tolist() == [-3, -2, -1, 0, 1, 2]


def test_distinct_second_views_are_uniform_over_the_others():
    first, second = PROTOCOLS["distinct"].draw(48000, (9, 9), torch.Generator().manual_seed(0))
    apart = (second - first) % 7
    counts = torch.bincount(apart[:, 0] * 7 + apart[:, 1], minlength=49)
    assert counts[0] == 0
    # 48,000 draws over 48 differences: 1,000 each, standard deviation 31.3.
    assert (counts[1:] - 1000).abs().max() < 5 * 31.3


def test_consistency_of_hand_worked_answers():
    first, second = torch.tensor([0, 1, 2, 1]), torch.tensor([0, 2, 2, 1])
    assert consistency(first, second) == 0.75
    assert consistency_given_correct(first, second, torch.tensor([0, 1, 1, 0])) == 0.5
    assert consistency_given_correct(first, second, torch.tensor([1, 0, 0, 0])) is None


def test_answers_are_those_of_images_shifted_one_by_one():
    cnn, x = net("max", "zeros"), images(6)
    shifts = torch.tensor([[0, 0], [1, 2], [-1, 0], [3, 3], [0, -2], [5, 1]])
    expected = [
        cnn.eval()(x[n : n + 1].roll(tuple(s), (2, 3))).argmax(1) for n, s in enumerate(shifts.tolist())
    ]
    assert torch.equal(answers(cnn, x, shifts), torch.cat(expected))


def test_a_circular_model_is_consistent_at_multiples_of_its_total_stride():
    cnn, x = net("max").double(), images().double()
    still = answers(cnn, x, torch.tensor((0, 0)))
    assert torch.equal(still, answers(cnn, x, torch.tensor((4, -4))))


def test_relative_change_is_the_slow_obvious_number():
    cnn, x = net("max", "zeros").double().eval(), images().double()

    def s1(batch):
        return cnn.features[1](cnn.features[0](batch)).flatten(1)

    still = s1(x)
    apart = np.mean([(still[n] - still[n - 1]).norm().item() for n in range(len(x))])
    for d in (1, 2):
        ways = [(d, 0), (-d, 0), (0, d), (0, -d)]
        moved = [
            (s1(x[n : n + 1].roll(way, (2, 3)))[0] - still[n]).norm().item()
            for way in ways
            for n in range(len(x))
        ]
        got = relative_change(cnn, cnn.stages, x, 2)["s1"][str(d)]
        assert got == pytest.approx(np.mean(moved) / apart, rel=1e-12)


def test_an_invariant_stage_does_not_change():
    class Mean(nn.Module):
        def forward(self, x):
            return x.mean((2, 3), keepdim=True)

    stage = Mean()
    changes = relative_change(stage, {"s1": stage}, images().double(), 3)["s1"]
    assert max(changes.values()) < 1e-15


def test_worst_shift_accuracy_is_a_product_over_all_shifts():
    cnn, x = net("subsample", "zeros"), images(20)
    labels = answers(cnn, x, torch.tensor((0, 0)))
    assert worst_shift_accuracy(cnn, x, labels, 0) == 1.0
    right = torch.ones(20, dtype=torch.bool)
    for down in (-1, 0, 1):
        for across in (-1, 0, 1):
            right &= answers(cnn, x.roll((down, across), (2, 3)), torch.tensor((0, 0))) == labels
    assert worst_shift_accuracy(cnn, x, labels, 1) == right.double().mean().item()


def test_the_probe_reports_every_stage_distance_and_preset_and_changes_nothing():
    cnn, x = net("max").train(), images(12)
    labels = torch.arange(12) % 3
    before, generator = copy.deepcopy(cnn.state_dict()), torch.get_rng_state()
    probe = ShiftInvariance(presets=("distinct", "tips"), samples=10, stage_samples=4, max_shift_px=2)
    result = probe.measure(cnn, cnn.stages, x, labels)
    assert result["consistency"].keys() == {"distinct", "tips"}
    assert result["stages"].keys() == {"s1", "s2"}
    assert result["stages"]["s1"]["relative_change"].keys() == {"1", "2"}
    assert result["samples"] == 10
    assert cnn.training
    assert torch.equal(generator, torch.get_rng_state())
    assert all(torch.equal(before[k], v) for k, v in cnn.state_dict().items())
    assert probe.measure(cnn, cnn.stages, x, labels) == result


@pytest.mark.parametrize(
    "options", [{"samples": 0}, {"stage_samples": 1}, {"max_shift_px": 0}, {"worst_px": -1}]
)
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ValueError, match="invariance probe"):
        ShiftInvariance(**options)
