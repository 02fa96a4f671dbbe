import time

import pytest
import torch
from torch import nn

from cnnpool import pool, readout
from cnnpool.probe import Cost
from cnnpool.probe.cost import (
    flops,
    images_per_s,
    parameters,
    saved_bytes,
    stage_times,
    times_in_turn,
)


class Tiny(nn.Module):
    """conv 1->2 (3x3, bias), max 2x2, linear 8->3, on 4x4 images."""

    def __init__(self, operator="max"):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.pool = pool.build(operator, 2)
        self.stages = {"s1": self.pool}
        self.linear = nn.Linear(8, 3)

    def forward(self, x):
        return self.linear(self.pool(self.conv(x)).flatten(1))


def test_parameters_are_those_that_learn():
    tiny = Tiny()
    assert parameters(tiny) == 2 * 9 + 2 + 8 * 3 + 3
    tiny.conv.weight.requires_grad_(False)
    assert parameters(tiny) == 2 + 8 * 3 + 3
    # The classifier is the linear layers, a shared one once.
    tiny.again = tiny.linear
    assert parameters(tiny, nn.Linear) == 8 * 3 + 3
    tiny.linear.bias.requires_grad_(False)
    assert parameters(tiny, nn.Linear) == 8 * 3


def test_flops_count_convolution_linear_and_pooling_and_a_strided_convolution_once():
    tiny, strided = Tiny(), Tiny("strided")
    layers = 2 * 16 * 9 * 2 + 2 * 8 * 3
    assert flops(tiny, torch.zeros(1, 1, 4, 4)) == layers + tiny.pool.flops(4, 4) > layers
    # Without a warning.
    assert flops(torch.compile(tiny), torch.zeros(1, 1, 4, 4)) == layers + tiny.pool.flops(4, 4)
    assert flops(strided, torch.zeros(1, 1, 4, 4)) == layers + 2 * 4 * 9 * 2 * 2


TORCHS = [
    (nn.MaxPool2d(3, 2, 1), 3 * 4 * 4 * 8),
    (nn.AvgPool2d(2), 3 * 4 * 4 * 4),
    (nn.AdaptiveAvgPool2d(1), 3 * 8 * 8),
    (nn.AdaptiveMaxPool2d((None, 4)), 0),
]


@pytest.mark.parametrize(("pooling", "counted"), TORCHS, ids=str)
def test_torchs_own_pooling_counts_as_ours_and_nested_modules_count_once(pooling, counted):
    assert flops(nn.Sequential(nn.Identity(), pooling), torch.zeros(1, 3, 8, 8)) == counted
    if counted == 3 * 4 * 4 * 8:
        assert flops(pool.build("max", 3, kernel_size=3, padding=1), torch.zeros(1, 3, 8, 8)) == counted
    # A maximum, then a blur, which is an operator too.
    blurred = pool.build("max_blur", 3)
    assert flops(blurred, torch.zeros(1, 3, 8, 8)) == blurred.flops(8, 8)


@pytest.mark.parametrize("name", ["gap", "gem", "pyramid", "simpool", "flatten"])
def test_readouts_count_what_they_state(name):
    head = readout.build(name, 3, (8, 8))
    assert flops(head, torch.zeros(1, 3, 8, 8)) == head.flops(8, 8) > 0


def test_an_operator_that_does_not_say_its_arithmetic_leaves_the_count_out():
    class Silent(pool.Pool2d):
        kernel_size = stride = (2, 2)

        def forward(self, x):
            return x[..., ::2, ::2]

    tiny = Tiny()
    tiny.pool = tiny.stages["s1"] = Silent(1)
    result = Cost(repeats=1).measure(tiny, tiny.stages, torch.zeros(4, 1, 4, 4), torch.zeros(4).long())
    assert "flops" not in result and result["parameters"] == parameters(Tiny())


def test_saved_bytes_are_those_of_a_hand_count():
    # Enough images for max pooling to work its own way: of a small map torch keeps the whole input.
    tiny, n = Tiny(), 4096
    images, labels = torch.randn(n, 1, 4, 4), torch.zeros(n, dtype=torch.int64)
    # Per image: the convolution keeps the image (16 floats), the pool a byte per output (8), the linear
    # layer its input (8 floats), cross entropy its log-probabilities (3 floats) and the label.
    conv, winners, linear, loss = 16 * 4, 8, 8 * 4, 3 * 4 + 8
    expected = conv + winners + linear + loss
    assert saved_bytes(tiny, images, labels) == expected


class Wasteful(Tiny):
    """Starts many graphs of which nothing is kept."""

    def forward(self, x):
        for _ in range(5):
            (self.conv(x) + 1.0).exp()
        return super().forward(x)


def test_what_a_discarded_graph_kept_is_not_counted():
    images, labels = torch.randn(64, 1, 4, 4), torch.zeros(64, dtype=torch.int64)
    assert saved_bytes(Wasteful(), images, labels) == saved_bytes(Tiny(), images, labels)


def test_a_slower_operator_takes_longer_per_image():
    class Slow(nn.Module):
        def forward(self, x):
            time.sleep(0.02)
            return x * 1.0

    slow = Slow()
    times = stage_times(slow, {"s1": slow}, torch.zeros(4, 1, 2, 2), repeats=2)["s1"]
    assert times["forward_us"] >= 5000 > times["backward_us"]
    assert images_per_s(slow, torch.zeros(4, 1, 2, 2), repeats=2) <= 200


def test_the_operator_is_timed_with_a_gradient_that_lies_in_memory():
    seen = []

    class Backward(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x[..., ::2].clone()

        @staticmethod
        def backward(ctx, gradient):
            seen.append((gradient.is_contiguous(), gradient.unique().tolist()))
            return gradient.repeat_interleave(2, -1)

    class Half(nn.Module):
        forward = staticmethod(Backward.apply)

    half = Half()
    stage_times(half, {"s1": half}, torch.zeros(2, 1, 2, 4), repeats=2)
    assert seen == [(True, [1.0])] * 3


def test_a_part_of_a_larger_batch_costs_what_it_costs_alone():
    tiny, images, labels = Tiny(), torch.randn(100, 1, 4, 4), torch.zeros(100, dtype=torch.int64)
    alone = saved_bytes(tiny, images[:2].clone(), labels[:2].clone())
    assert saved_bytes(tiny, images[:2], labels[:2]) == alone


def test_speed_is_in_images(monkeypatch):
    monkeypatch.setattr("cnnpool.probe.cost.seconds", lambda *_: 0.5)
    assert images_per_s(nn.Flatten(), torch.zeros(4, 1, 2, 2), repeats=1) == 8


def test_models_are_timed_in_turn_in_both_ways_and_left_as_they_were(monkeypatch):
    calls, clock = [], iter(range(10**6))

    class Seen(Tiny):
        def forward(self, x):
            calls.append((self.name, torch.is_grad_enabled(), self.training))
            # The second takes 3 ticks for each of the first's.
            for _ in range(2 * (self.name == "b")):
                next(clock)
            return super().forward(x)

    models = [Seen().train(), Seen().train()]
    models[0].name, models[1].name = "a", "b"
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    found = times_in_turn(models, torch.zeros(4, 1, 4, 4), repeats=2)
    assert found == {"inference": [250.0, 750.0], "training": [250.0, 750.0]}
    turns = [(name, grad, False) for grad in (False, True) for name in "aabbaabb"]
    assert calls == turns
    assert all(model.training for model in models) and models[0].conv.weight.grad is None
