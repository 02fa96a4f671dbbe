"""Windows: ties, winners, and outputs that are maxima, against hand-worked maps and slow loops."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from cnnpool import pool
from cnnpool.probe import windows


def cells_of(plane, top, left, kernel, dilation):
    """The values of a window, row by row, -inf beyond the plane."""
    padded, reach = nn.functional.pad(plane, (9,) * 4, value=-np.inf), range(0, kernel * dilation, dilation)
    return [padded[9 + top + i, 9 + left + j].item() for i in reach for j in reach]


def winner_shares(activation, operator):
    return windows.shares_of(windows.winner_sums(activation, operator))


MAP = torch.tensor([[1.0, 1, 0, 0], [0, 1, 0, 0], [5, 2, 3, 3], [1, 0, 1, 2]]).reshape(1, 1, 4, 4)


def test_ties_of_a_hand_worked_map():
    assert windows.ties(MAP, pool.build("max", 1)) == {"tied_windows": 3 / 4, "zero_windows": 1 / 4}


def test_tied_windows_of_overlapping_pooling_are_counted_per_window():
    map_ = torch.zeros(1, 1, 4, 4)
    map_[0, 0, 1, 1] = 1.0
    result = windows.ties(map_, pool.build("max", 1, kernel_size=3, stride=1))
    assert result == {"tied_windows": 0.0, "zero_windows": 0.0}
    # A map smaller than the window has no windows.
    small = windows.ties(torch.ones(1, 1, 2, 2), pool.build("max", 1, kernel_size=3))
    assert small["tied_windows"] == 0


def test_windows_at_a_border_are_counted_by_their_cells_inside_the_map():
    map_ = torch.tensor([[0.0, 1, 1, 0], [0, 2, 2, 0], [0, 2, 2, 0], [0, 0, 0, 3]])[None, None]
    # Of the nine windows four are one pixel of a corner, and four are two pixels of an edge.
    found = windows.ties(map_, pool.build("max", 1, padding=1))
    assert found == {"tied_windows": 5 / 9, "zero_windows": 6 / 9}


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
    assert windows.tie_rule(operator) == rule
    assert operator.winners is None and not operator.keep_winners and operator.ties == rule


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
    assert windows.tie_rule(operator) == ("first" if rule == "torch" else rule)
    parts = {"winners_untied": [], "winners_tied": []}
    for n, c, i, j in np.ndindex(2, 2, rows, columns):
        cells = cells_of(x[n, c], i * stride - padding, j * stride - padding, kernel, dilation)
        best = [place for place, cell in enumerate(cells) if cell == max(cells)]
        winners = {"last": best[-1:], "split": best}.get(rule, best[:1])
        share = [(place in winners) / len(winners) for place in range(kernel**2)]
        parts["winners_untied" if len(best) == 1 else "winners_tied"].append(share)
    parts["winners"] = [*parts["winners_untied"], *parts["winners_tied"]]
    assert windows.ties(x, operator)["tied_windows"] == len(parts["winners_tied"]) / len(parts["winners"])
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
    assert windows.tie_rule(operator) == "last"
    assert sum(winner_shares(MAP, operator)["winners"]) == pytest.approx(1)


def test_what_takes_no_maximum_has_no_winners_and_no_rule():
    operator = pool.build("avg", 1)
    assert windows.winner_sums(MAP, operator) is None
    assert windows.tie_rule(operator) == "none"


def test_the_stride_is_the_operators_own():
    operators = nn.MaxPool2d(3), nn.Conv2d(1, 1, 3, stride=(2, 1)), nn.Identity()
    assert [windows.stride_of(operator) for operator in operators] == [(3, 3), (2, 1), (2, 2)]


# Blocks of 2 x 2: a tie of three, zeros alone, one maximum first, and a tie of two that comes second.
BLOCKS = torch.tensor([[1.0, 1, 0, 0], [0, 1, 0, 0], [5, 2, 0, 3], [1, 0, 1, 3]]).reshape(1, 1, 4, 4)


def test_the_maxima_of_a_hand_worked_map_are_counted():
    # The window of zeros is left out: there every operator passes on the maximum. The first place of each
    # block holds 1, 5 and 0. Of the sorted only (0 1 1 1) has a value in the middle.
    for name, passed_on in {"max": 3, "subsample": 2, "avg": 0, "median": 1}.items():
        found = windows.passed(pool.build(name, 1), BLOCKS)
        assert found == (passed_on, 3, 4)
        assert found.shares() == {"maximum_sampling_bias": passed_on / 3, "constant_windows": 1 / 4}
    assert windows.passed(pool.build("max", 1), torch.ones(1, 1, 4, 4)).shares() == {"constant_windows": 1.0}
    assert windows.passed(pool.build("none", 1), BLOCKS).shares() == {"constant_windows": 1.0}


def slowly(operator, maps, kernel, stride, padding, dilation):
    """(maximum, uneven, all) of windows that may reach beyond the map, one window after the other."""
    outputs, counts = operator(maps), np.zeros(3, dtype=int)
    for n, c, i, j in np.ndindex(*outputs.shape):
        window = i * stride - padding, j * stride - padding, kernel, dilation
        cells = [cell for cell in cells_of(maps[n, c], *window) if cell > -np.inf]
        uneven = len(set(cells)) > 1
        counts += (uneven and outputs[n, c, i, j].item() == max(cells), uneven, 1)
    return tuple(counts)


def noise(height, width):
    # Few values and many zeros, so that maxima are tied and windows constant.
    generator = torch.Generator().manual_seed(1)
    return torch.randint(-3, 3, (2, 3, height, width), generator=generator).clamp_min(0).double()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("max", {"kernel_size": 3, "padding": 1}),
        ("max", {"kernel_size": 3, "dilation": 2, "padding": 1}),
        ("max", {"kernel_size": 2, "ceil_mode": True}),
        ("max", {"kernel_size": 2, "stride": 3}),
        ("median", {"kernel_size": 3}),
        ("avg", {"kernel_size": 2}),
    ],
)
def test_the_counts_are_those_of_a_slow_loop_over_the_operators_own_windows(name, options):
    operator, maps = pool.build(name, 3, **options).double(), noise(7, 9)
    kernel, stride = options["kernel_size"], options.get("stride", 2)
    expected = slowly(operator, maps, kernel, stride, options.get("padding", 0), options.get("dilation", 1))
    assert windows.passed(operator, maps) == expected
    assert 0 < expected[1] < expected[2]


@pytest.mark.parametrize("name", ["subsample", "aps", "lps", "max_blur", "blur"])
def test_operators_without_a_window_are_judged_by_the_blocks_of_their_stride(name):
    operator = pool.build(name, 3).double().eval()
    for maps in (noise(8, 6), noise(7, 9)):
        with torch.no_grad():
            assert windows.passed(operator, maps) == slowly(operator, maps, 2, 2, 0, 1)


def test_other_output_sizes_are_judged_by_the_parts_of_adaptive_pooling():
    maps = noise(7, 9)
    for operator in (pool.build("adaptive_max", 3).double(), nn.AdaptiveMaxPool2d((3, 2))):
        maximum, uneven, _ = windows.passed(operator, maps)
        assert maximum == uneven > 0
    largest, smallest = windows.extremes(nn.Identity(), maps, (3, 2))
    # Of 7 rows the second third reaches from 2 to 4, of 9 columns the second half from 4 to 8.
    part = maps[:, :, 2:5, 4:9]
    assert torch.equal(largest[:, :, 1, 1], part.amax((2, 3)))
    assert torch.equal(smallest[:, :, 1, 1], part.amin((2, 3)))


class Filter(nn.Module):
    """A blur that pads by itself, and says so in words."""

    kernel_size, stride, padding = 3, 2, "reflect"

    def forward(self, x):
        padded = nn.functional.pad(x, (1, 1, 1, 1), mode="reflect")
        return nn.functional.avg_pool2d(padded, 3, 2)


def test_windows_that_cannot_make_the_output_are_not_believed():
    maps = noise(8, 8)
    assert windows.passed(Filter(), maps) == slowly(Filter(), maps, 2, 2, 0, 1)


@pytest.mark.parametrize("name", pool.OPERATORS)
def test_operators_that_promise_to_keep_a_constant_map_have_the_number_and_no_others(name):
    operator = pool.build(name, 3).eval()
    with torch.no_grad():
        assert windows.keeps_constants(operator, torch.rand(2, 3, 8, 8)) == (operator.gain == 1.0)


def test_torchs_own_modules_have_the_number_unless_they_convolve():
    # PixelUnshuffle returns as many numbers, but no longer those of two channels.
    convolving = nn.Conv2d(2, 2, 3, 2, 1).requires_grad_(False), nn.PixelUnshuffle(2)
    maps = torch.rand(2, 2, 8, 8)
    plain = nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(2)
    assert all(windows.keeps_constants(operator, maps) for operator in plain)
    assert not any(windows.keeps_constants(operator, maps) for operator in convolving)


def test_every_stage_of_a_network_is_counted_over_all_parts_of_a_batch(net, batch, monkeypatch):
    cnn, (images, _) = net("subsample").eval(), batch()
    found = windows.maximum_sampling(cnn, cnn.stages, images)
    with torch.no_grad():
        seen = cnn.features[0](images)
    maximum, uneven, count = slowly(cnn.stages["s1"], seen, 2, 2, 0, 1)
    assert found["s1"]["maximum_sampling_bias"] == maximum / uneven
    assert found["s1"]["constant_windows"] == pytest.approx(1 - uneven / count)
    assert found.keys() == {"s1", "s2"}
    # Parts of two images: counts add up, where means would not.
    monkeypatch.setattr("cnnpool.probe.shift.BACKWARD", 2 * 12 * 12)
    assert windows.maximum_sampling(cnn, cnn.stages, images) == found

    cnn = net("strided")
    assert windows.maximum_sampling(cnn, cnn.stages, images) == {"s1": {}, "s2": {}}
