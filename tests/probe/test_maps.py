"""The measures that make pictures: heat map, receptive field; and the Lie derivative."""

import math

import pytest
import torch
from random_maps import noise
from torch import nn

from cnnpool import pool
from cnnpool.probe.base import maps_of
from cnnpool.probe.equivariance import directions, feature_distance, lie_derivatives
from cnnpool.probe.receptive_field import extent, receptive_fields
from cnnpool.probe.shift import fourier_shift


class Chain(nn.Sequential):
    """Layers, and those named as stages; the answer is the mean."""

    def __init__(self, *layers, stages):
        super().__init__(*layers)
        self.stages = stages

    def forward(self, x):
        return super().forward(x).mean((2, 3))


def test_cosine_distances_of_hand_worked_vectors():
    a = torch.tensor([[1.0, 0], [2, 0], [0, 0], [0, 0], [1, 1]])
    b = torch.tensor([[3.0, 0], [-1, 0], [0, 0], [5, 0], [1, 0]])
    expected = torch.tensor([0.0, 2, 0, 1, 1 - math.sqrt(0.5)])
    torch.testing.assert_close(1 - (directions(a) * directions(b)).sum(1), expected)


def test_the_heat_map_is_perfect_at_multiples_of_the_total_stride(net, batch):
    cnn, x = net(border="circular").double(), batch(3, (16, 16))[0].double()
    maps = feature_distance(cnn, cnn.stages, x, 4)
    for stage, stride in (("s1", 2), ("s2", 4)):
        perfect = maps[stage] < 1e-12
        offsets = torch.arange(-4, 5) % stride == 0
        assert torch.equal(perfect, offsets[:, None] & offsets), stage


def test_the_heat_map_of_subsampling_is_the_slow_obvious_one():
    operator, x = pool.build("subsample", 2), noise(2, 2, 4, 4)
    got = feature_distance(operator, {"s": operator}, x, 3)["s"]

    def enlarged(image):
        return image[:, ::2, ::2].repeat_interleave(2, 1).repeat_interleave(2, 2)

    for way in ((0, 1), (1, -2), (-3, 2)):
        total = 0.0
        for image in x:
            moved, still = enlarged(image.roll(way, (1, 2))), enlarged(image).roll(way, (1, 2))
            for a, b in zip(moved.flatten(1).T, still.flatten(1).T, strict=True):
                total += 1 - (a @ b / (a.norm() * b.norm())).item()
        assert got[way[0] + 3, way[1] + 3].item() == pytest.approx(total / 32)


def test_the_receptive_field_of_an_average_is_its_window_and_of_a_maximum_its_winner():
    for name, size in (("avg", 2.0), ("max", 1.0)):
        operator = pool.build(name, 1)
        fields = receptive_fields(operator, {"s": operator}, noise(1, 1, 8, 8))
        assert extent(fields["s"])["effective_px"] == size, name
        # The window of the output (2, 2) is rows and columns 4 and 5.
        assert fields["s"][4:6, 4:6].sum() == fields["s"].sum() == 1.0


def test_the_receptive_field_of_linear_layers_is_their_kernels_product():
    first, second = nn.Conv2d(1, 1, 3, padding=1, bias=False), nn.Conv2d(1, 1, 3, padding=1, bias=False)
    chain = Chain(first, second, stages={"s": second}).double()
    field = receptive_fields(chain, chain.stages, noise(2, 1, 11, 11))["s"]
    with torch.no_grad():
        probe = torch.zeros(1, 1, 11, 11, dtype=torch.float64)
        probe[0, 0, 5, 5] = 1
        behind = nn.functional.conv_transpose2d(probe, second.weight, padding=1)
        transposed = nn.functional.conv_transpose2d(behind, first.weight, padding=1)
    torch.testing.assert_close(field, transposed[0, 0].abs())
    assert extent(field)["reach_px"] == 5


def test_gaussian_fields_have_the_extent_of_two_standard_deviations():
    axis = torch.arange(-30.0, 31.0, dtype=torch.float64)
    field = torch.exp(-(axis[:, None] ** 2 + axis**2) / (2 * 6.0**2))
    # exp(-r^2 / 2 sigma^2) > 0.0455 inside r = sigma sqrt(-2 ln 0.0455) = 2.486 sigma.
    radius = 6.0 * math.sqrt(-2 * math.log(1 - 0.9545))
    assert extent(field)["effective_px"] == pytest.approx(math.sqrt(math.pi) * radius, rel=0.01)


def test_circular_convolution_has_no_lie_derivative_and_its_mean_neither():
    conv = nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular")
    chain = Chain(conv, stages={"s": conv}).double()
    found = lie_derivatives(chain, chain.stages, noise(3, 1, 9, 9))
    assert found["s"]["lie_derivative"] < 1e-28
    assert found[""]["lie_derivative"] < 1e-28


def test_a_stage_is_measured_before_the_next_layer_overwrites_it():
    conv, x = nn.Conv2d(1, 4, 3, 2), torch.randn(2, 1, 9, 9)
    nets = (nn.Sequential(conv, nn.ReLU(inplace=which)) for which in (False, True))
    assert torch.equal(*(maps_of(net, {"s": conv}, x)["s"] for net in nets))


def test_the_ideal_low_pass_does_not_alias_and_subsampling_does():
    x = noise(3, 2, 16, 16)
    found = {}
    for name in ("ideal_lowpass", "blur", "avg", "subsample"):
        options = {"padding_mode": "circular"} if name == "blur" else {}
        operator = pool.build(name, 2, **options).double()
        found[name] = lie_derivatives(operator, {"s": operator}, x)["s"]["lie_derivative"]
    assert found["ideal_lowpass"] < 1e-24
    assert found["blur"] < found["avg"] < found["subsample"]


@pytest.mark.parametrize("name", ["avg", "max", "soft", "subsample"])
def test_the_lie_derivative_is_the_limit_of_small_shifts(name, net):
    cnn, x, t = net(name).double().eval(), noise(3, 1, 12, 12), 1e-7
    found = lie_derivatives(cnn, cnn.stages, x)

    def back(images, down, right):
        return fourier_shift(cnn.features[:2](fourier_shift(images, down, right)), -down / 2, -right / 2)

    def there(images, down, right):
        return cnn(fourier_shift(images, down, right))

    for stage, moved in (("s1", back), ("", there)):
        slopes = [(moved(x, *way) - moved(x, -way[0], -way[1])) / (2 * t) for way in ((t, 0), (0, t))]
        expected = torch.stack(slopes).square().mean().item()
        assert found[stage]["lie_derivative"] == pytest.approx(expected, rel=1e-4)
