import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from cnnpool import pool
from cnnpool.probe.windows import shares_of, stride_of, tie_rule, ties, winner_sums


def winner_shares(activation, operator):
    return shares_of(winner_sums(activation, operator))


MAP = torch.tensor([[1.0, 1, 0, 0], [0, 1, 0, 0], [5, 2, 3, 3], [1, 0, 1, 2]]).reshape(1, 1, 4, 4)


def test_ties_of_a_hand_worked_map():
    assert ties(MAP, pool.build("max", 1)) == {"tied_windows": 3 / 4, "zero_windows": 1 / 4}


def test_tied_windows_of_overlapping_pooling_are_counted_per_window():
    map_ = torch.zeros(1, 1, 4, 4)
    map_[0, 0, 1, 1] = 1.0
    result = ties(map_, pool.build("max", 1, kernel_size=3, stride=1))
    assert result == {"tied_windows": 0.0, "zero_windows": 0.0}
    # A map smaller than the window has no windows.
    assert ties(torch.ones(1, 1, 2, 2), pool.build("max", 1, kernel_size=3, padding=1))["tied_windows"] == 0


@pytest.mark.parametrize(
    ("rule", "tied"),
    [
        # Winners of the windows but the third: places 0, 0 (all zero), 0; then 3, 3, 1.
        ("first", [3, 0, 0, 0]),
        ("last", [0, 1, 0, 2]),
        # Thirds of 0, 1, 3; quarters of all; halves of 0, 1.
        ("split", [1 / 3 + 1 / 4 + 1 / 2, 1 / 3 + 1 / 4 + 1 / 2, 1 / 4, 1 / 3 + 1 / 4]),
    ],
)
def test_winners_of_a_hand_worked_map_go_by_the_tie_rule(rule, tied):
    operator = pool.build("max", 1, ties=rule)
    shares = winner_shares(MAP, operator)
    # Of the four windows only the third, with the 5 at its first place, has a single maximum.
    assert shares["winners_untied"] == [1.0, 0, 0, 0]
    assert shares["winners_tied"] == pytest.approx([each / 3 for each in tied])
    assert shares["winners"] == pytest.approx([(tied[0] + 1) / 4, *(each / 4 for each in tied[1:])])
    assert tie_rule(operator) == rule
    assert operator.winners is None and not operator.keep_winners and operator.ties == rule


def test_without_ties_or_with_ties_alone_the_other_part_is_left_out():
    operator, rising = pool.build("max", 1), torch.arange(16.0).reshape(1, 1, 4, 4)
    assert set(winner_shares(torch.zeros(1, 1, 4, 4), operator)) == {"winners", "winners_tied"}
    assert set(winner_shares(rising, operator)) == {"winners", "winners_untied"}


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation", "ceil"),
    [(2, 2, 0, 1, False), (3, 2, 1, 1, False), (3, 2, 0, 2, False), (2, 2, 0, 1, True), (3, 3, 1, 1, True)],
)
@pytest.mark.parametrize("rule", ["first", "last", "split", "torch"])
def test_winners_are_those_of_a_slow_loop_over_windows(kernel, stride, padding, dilation, ceil, rule):
    x = torch.randint(0, 4, (2, 2, 7, 9), generator=torch.Generator().manual_seed(1)).double()
    window = {"kernel_size": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    operator = nn.MaxPool2d(**window, ceil_mode=ceil)
    rows, columns = operator(x).shape[-2:]
    if rule != "torch":
        operator = pool.build("max", 2, **window, ceil_mode=ceil, ties=rule)
    assert tie_rule(operator) == ("first" if rule == "torch" else rule)
    parts = {"winners_untied": [], "winners_tied": []}
    for n, c, i, j in np.ndindex(2, 2, rows, columns):
        cells = [
            x[n, c, row, column].item() if 0 <= row < 7 and 0 <= column < 9 else -np.inf
            for row in (i * stride - padding + dilation * k for k in range(kernel))
            for column in (j * stride - padding + dilation * k for k in range(kernel))
        ]
        best = [place for place, cell in enumerate(cells) if cell == max(cells)]
        winners = {"last": best[-1:], "split": best}.get(rule, best[:1])
        share = [(place in winners) / len(winners) for place in range(kernel**2)]
        parts["winners_untied" if len(best) == 1 else "winners_tied"].append(share)
    parts["winners"] = [*parts["winners_untied"], *parts["winners_tied"]]
    for name, shares in winner_shares(x, operator).items():
        assert shares == pytest.approx(np.mean(parts.pop(name), axis=0))
    assert not parts


@pytest.mark.parametrize("mode", ["circular", "reflect"])
def test_winners_behind_a_convolution_are_those_of_the_map_that_the_maximum_sees(mode):
    operator = pool.build("conv_pool", 2, padding_mode=mode)
    x = torch.randn(4, 2, 16, 16, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        operator.conv.bias.fill_(100.0)
    # A window at a mirroring edge holds its values twice.
    mirrored = {"winners_tied"} if mode == "reflect" else set()
    assert set(winner_shares(x, operator)) == {"winners", "winners_untied"} | mirrored
    with torch.no_grad():
        operator.conv.bias.fill_(-100.0)
    # Nothing is left of the map: the first place wins by the rule alone.
    assert winner_shares(x, operator) == {"winners": [1.0] + [0.0] * 8, "winners_tied": [1.0] + [0.0] * 8}


class Blocks(TorchDispatchMode):
    """The bytes of every large tensor that is made."""

    def __init__(self):
        super().__init__()
        self.made = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **kwargs or {})
        sizes = [t.nbytes for t in tree_leaves(found) if isinstance(t, torch.Tensor)]
        self.made += [size for size in sizes if size > 1000]
        return found


@pytest.mark.parametrize("rule", ["first", "last", "split"])
def test_counting_winners_takes_blocks_of_the_same_size_whatever_the_values(rule):
    # 1.6 GB were lost to holes at 224 pixels, where blocks differed and each was all places of all windows.
    x = torch.randn(2, 8, 32, 32, generator=torch.Generator().manual_seed(0))
    made = []
    for map_ in (x, x.relu(), torch.zeros_like(x)):
        with Blocks() as blocks:
            winner_shares(map_, pool.build("max", 8, kernel_size=3, stride=1, ties=rule))
        made.append(blocks.made)
        assert max(blocks.made) <= 2 * x.nbytes
    assert made[0] == made[1] == made[2]


def test_the_maximum_inside_a_blur_is_found():
    operator = pool.build("max_blur", 1, ties="last")
    assert tie_rule(operator) == "last"
    assert sum(winner_shares(MAP, operator)["winners"]) == pytest.approx(1)


def test_what_takes_no_maximum_has_no_winners_and_no_rule():
    operator = pool.build("avg", 1)
    assert winner_sums(MAP, operator) is None
    assert tie_rule(operator) == "none"


def test_the_stride_is_the_operators_own():
    operators = nn.MaxPool2d(3), nn.Conv2d(1, 1, 3, stride=(2, 1)), nn.Identity()
    assert [stride_of(operator) for operator in operators] == [(3, 3), (2, 1), (2, 2)]
