import pytest
import torch

from cnnpool import pool, registry
from cnnpool.probe.equivariance import equivariance_error, total_strides

LEAKY = {
    "lip": "its logits come from a convolution that pads with zeros",
    "max_blur": "its dense maximum pads",
    "resize": "its filter is cut at the border",
    "s3": "its dense maximum pads",
}
"""Operators that commute with shifts by the stride inside the map, not around its edge."""


def circular(name):
    """Options of the operator under which it knows no border."""
    options = registry.options_of(pool.OPERATORS[name])
    return {key: "circular" for key, option in options.items() if "circular" in str(option.hint)}


@pytest.mark.parametrize("name", pool.OPERATORS)
def test_a_circular_net_commutes_with_shifts_by_its_stride(name, net, batch):
    cnn = net(name, size=(16, 8), border="circular", **circular(name)).double()
    images = batch(3, (16, 8))[0].double()
    errors = equivariance_error(cnn, cnn.stages, images)
    assert errors.keys() == {"s1", "s2"}
    exact = name not in LEAKY and cnn.stages["s1"].equivariant
    for found in errors.values():
        # The error is a square: rounding is 1e-32 or so.
        assert found["equivariance_error"] < 1e-24 if exact else found["equivariance_error"] > 1e-6


def test_zero_padding_leaks_and_the_error_is_the_slow_obvious_one(net, batch):
    cnn, images = net().double().eval(), batch(4)[0].double()

    def s2(x):
        return cnn.features[:4](x)

    still = s2(images)
    moved = [
        (s2(images.roll((4 * i, 4 * j), (2, 3))) - still.roll((i, j), (2, 3))).square().sum() / 4
        for i, j in ((1, 0), (-1, 0), (0, 1), (0, -1))
    ]
    apart = sum((still[n] - still[n - 1]).square().sum() for n in range(4)) / 4
    found = equivariance_error(cnn, cnn.stages, images)["s2"]
    assert found["equivariance_error"] == pytest.approx((sum(moved) / 4 / apart).item(), rel=1e-10)
    assert found["equivariance_error"] > 1e-3 and found["shift_px"] == 4


def test_a_bug_in_the_sampling_grid_is_found(net, batch):
    cnn, images = net(border="circular").double(), batch(3)[0].double()

    class Drifting(torch.nn.Module):
        """Subsamples at a phase that wanders along the map."""

        def forward(self, x):
            columns = torch.arange(0, x.shape[-1], 2)
            columns[x.shape[-1] // 4 :] += 1
            return x[..., ::2, :][..., columns]

    drifting = Drifting()
    cnn.features[1] = drifting
    assert equivariance_error(cnn, {"s1": drifting}, images)["s1"]["equivariance_error"] > 0.01


def test_total_strides_multiply_and_stop_where_a_stride_does_not_divide():
    stages = {stage: pool.build("max", 1, ceil_mode=True) for stage in "abc"}
    images = torch.zeros(1, 1, 28, 28)

    def strides(sizes):
        inputs, outputs = (
            {stage: torch.zeros(1, 1, both[place], both[place]) for stage, both in sizes.items()}
            for place in (0, 1)
        )
        return total_strides(images, stages, inputs, outputs)

    # 7 -> 4 is no division by two, and what comes after it is none of the image.
    assert strides({"a": (28, 14), "b": (7, 4), "c": (4, 2)}) == {"a": (2, 2)}
    assert strides({"a": (28, 14), "b": (14, 7), "c": (7, 4)}) == {"a": (2, 2), "b": (4, 4)}
    assert strides({"a": (14, 7)}) == {"a": (4, 4)}


def test_a_stage_whose_map_cannot_move_is_left_out(net, batch):
    cnn = net(size=(4, 4))
    assert equivariance_error(cnn, cnn.stages, batch(2, (4, 4))[0]).keys() == {"s1"}
