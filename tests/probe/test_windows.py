import numpy as np
import pytest
import torch
from torch import nn

from cnnpool import pool
from cnnpool.probe.windows import stride_of, tie_rule, ties, winner_shares

MAP = torch.tensor([[1.0, 1, 0, 0], [0, 1, 0, 0], [5, 2, 3, 3], [1, 0, 1, 2]]).reshape(1, 1, 4, 4)


def test_ties_of_a_hand_worked_map():
    assert ties(MAP, pool.build("max", 1)) == {"tied_windows": 3 / 4, "zero_windows": 1 / 4}


def test_tied_windows_of_overlapping_pooling_are_counted_per_window():
    map_ = torch.zeros(1, 1, 4, 4)
    map_[0, 0, 1, 1] = 1.0
    result = ties(map_, pool.build("max", 1, kernel_size=3, stride=1))
    assert result == {"tied_windows": 0.0, "zero_windows": 0.0}


def test_a_map_smaller_than_the_window_has_no_windows():
    assert ties(torch.ones(1, 1, 2, 2), pool.build("max", 1, kernel_size=3, padding=1))["tied_windows"] == 0


@pytest.mark.parametrize(
    ("rule", "shares"),
    [
        # Winners of the four windows: places 0, 0 (all zero), 0, 0.
        ("first", [1.0, 0, 0, 0]),
        # 3, 3, 0, 1.
        ("last", [0.25, 0.25, 0, 0.5]),
        # Thirds of 0, 1, 3; quarters of all; 0; halves of 0, 1.
        (
            "split",
            [(1 / 3 + 1 / 4 + 1 + 1 / 2) / 4, (1 / 3 + 1 / 4 + 1 / 2) / 4, 1 / 16, (1 / 3 + 1 / 4) / 4],
        ),
    ],
)
def test_winners_of_a_hand_worked_map_go_by_the_tie_rule(rule, shares):
    operator = pool.build("max", 1, ties=rule)
    assert tie_rule(operator) == rule
    assert winner_shares(MAP, operator) == pytest.approx(shares)
    assert operator.winners is None and not operator.keep_winners


@pytest.mark.parametrize("options", [{}, {"kernel_size": 3, "padding": 1}, {"kernel_size": 3, "dilation": 2}])
def test_torchs_own_pooling_gives_the_same_winners(options):
    x = torch.randn(2, 3, 9, 8, generator=torch.Generator().manual_seed(0))
    ours, theirs = (
        pool.build("max", 3, **options),
        nn.MaxPool2d(**({"kernel_size": 2, "stride": 2} | options)),
    )
    if "kernel_size" in options:
        theirs.stride = 2
    assert winner_shares(x, ours) == winner_shares(x, theirs)
    assert tie_rule(theirs) == "first"


def test_winners_of_noise_are_uniform():
    x = torch.randn(4, 4, 64, 64, generator=torch.Generator().manual_seed(0))
    # 16,384 windows: standard deviation of a share 0.0034.
    assert np.allclose(winner_shares(x, pool.build("max", 4)), 0.25, atol=0.015)


def test_the_maximum_inside_a_blur_is_found():
    operator = pool.build("max_blur", 1, ties="last")
    assert tie_rule(operator) == "last"
    assert sum(winner_shares(MAP, operator)) == pytest.approx(1)


def test_what_takes_no_maximum_has_no_winners_and_no_rule():
    operator = pool.build("avg", 1)
    assert winner_shares(MAP, operator) is None
    assert tie_rule(operator) == "none"


@pytest.mark.parametrize(
    ("operator", "stride"),
    [(nn.MaxPool2d(3), (3, 3)), (nn.Conv2d(1, 1, 3, stride=(2, 1)), (2, 1)), (nn.Identity(), (2, 2))],
)
def test_the_stride_is_the_operators_own(operator, stride):
    assert stride_of(operator) == stride
