"""How often a stage passes on the maximum of a window, against hand-worked maps and a slow loop."""

import numpy as np
import pytest
import torch
from torch import nn

from cnnpool import pool
from cnnpool.probe.windows import extremes, keeps_constants, maximum_sampling, passed

# Blocks of 2 x 2: a tie of three, zeros alone, one maximum first, and a tie of two that comes second.
MAP = torch.tensor([[1.0, 1, 0, 0], [0, 1, 0, 0], [5, 2, 0, 3], [1, 0, 1, 3]]).reshape(1, 1, 4, 4)


def test_the_maxima_of_a_hand_worked_map_are_counted():
    # The window of zeros is left out: there every operator passes on the maximum. The first place of each
    # block holds 1, 5 and 0. Of the sorted only (0 1 1 1) has a value in the middle.
    for name, passed_on in {"max": 3, "subsample": 2, "avg": 0, "median": 1}.items():
        found = passed(pool.build(name, 1), MAP)
        assert found == (passed_on, 3, 4)
        assert found.shares() == {"maximum_sampling_bias": passed_on / 3, "constant_windows": 1 / 4}
    assert passed(pool.build("max", 1), torch.ones(1, 1, 4, 4)).shares() == {"constant_windows": 1.0}
    assert passed(pool.build("none", 1), MAP).shares() == {"constant_windows": 1.0}


def slowly(operator, maps, kernel, stride, padding, dilation):
    """(maximum, uneven, all) of windows that may reach beyond the map, one window after the other."""
    outputs, counts = operator(maps), np.zeros(3, dtype=int)
    for n, c, i, j in np.ndindex(*outputs.shape):
        cells = [
            maps[n, c, row, column].item()
            for row in (i * stride - padding + dilation * k for k in range(kernel))
            for column in (j * stride - padding + dilation * k for k in range(kernel))
            if 0 <= row < maps.shape[2] and 0 <= column < maps.shape[3]
        ]
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
    assert passed(operator, maps) == expected
    assert 0 < expected[1] < expected[2]


@pytest.mark.parametrize("name", ["subsample", "aps", "lps", "max_blur", "blur"])
def test_operators_without_a_window_are_judged_by_the_blocks_of_their_stride(name):
    operator = pool.build(name, 3).double().eval()
    for maps in (noise(8, 6), noise(7, 9)):
        with torch.no_grad():
            assert passed(operator, maps) == slowly(operator, maps, 2, 2, 0, 1)


def test_other_output_sizes_are_judged_by_the_parts_of_adaptive_pooling():
    maps = noise(7, 9)
    for operator in (pool.build("adaptive_max", 3).double(), nn.AdaptiveMaxPool2d((3, 2))):
        maximum, uneven, _ = passed(operator, maps)
        assert maximum == uneven > 0
    largest, smallest = extremes(nn.Identity(), maps, (3, 2))
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
    assert passed(Filter(), maps) == slowly(Filter(), maps, 2, 2, 0, 1)


@pytest.mark.parametrize("name", pool.OPERATORS)
def test_operators_that_promise_to_keep_a_constant_map_have_the_number_and_no_others(name):
    torch.manual_seed(0)
    operator = pool.build(name, 3).eval()
    with torch.no_grad():
        assert keeps_constants(operator, torch.rand(2, 3, 8, 8)) == (operator.gain == 1.0)


def test_torchs_own_modules_have_the_number_unless_they_convolve():
    # PixelUnshuffle returns as many numbers, but no longer those of two channels.
    convolving = nn.Conv2d(2, 2, 3, 2, 1).requires_grad_(False), nn.PixelUnshuffle(2)
    maps = torch.rand(2, 2, 8, 8)
    assert all(keeps_constants(operator, maps) for operator in (nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(2)))
    assert not any(keeps_constants(operator, maps) for operator in convolving)


def test_every_stage_of_a_network_is_counted_over_all_parts_of_a_batch(net, batch, monkeypatch):
    cnn, (images, _) = net("subsample").eval(), batch()
    found = maximum_sampling(cnn, cnn.stages, images)
    with torch.no_grad():
        seen = cnn.features[0](images)
    maximum, uneven, windows = slowly(cnn.stages["s1"], seen, 2, 2, 0, 1)
    assert found["s1"]["maximum_sampling_bias"] == maximum / uneven
    assert found["s1"]["constant_windows"] == pytest.approx(1 - uneven / windows)
    assert found.keys() == {"s1", "s2"}
    # Parts of two images: counts add up, where means would not.
    monkeypatch.setattr("cnnpool.probe.shift.BACKWARD", 2 * 12 * 12)
    assert maximum_sampling(cnn, cnn.stages, images) == found

    cnn = net("strided")
    assert maximum_sampling(cnn, cnn.stages, images) == {"s1": {}, "s2": {}}
