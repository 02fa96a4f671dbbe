"""The way up of polyphase sampling, pixel by pixel, and in pairs with the way down."""

import itertools

import pytest
import torch

from cnnpool.pool import build, polyphase_unpool2d
from cnnpool.pool.autograd.phases import sample_phase


def maps(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_each_value_goes_where_the_phase_was_taken_and_weights_share_it_out():
    x, phase, stride = maps(2, 3, 2, 4), torch.tensor([4, 1]), (2, 3)
    y = polyphase_unpool2d(x, phase, stride)
    expected = torch.zeros(2, 3, 4, 12, dtype=torch.float64)
    for n, c, i, j in itertools.product(*map(range, x.shape)):
        p, q = divmod(int(phase[n]), 3)
        expected[n, c, 2 * i + p, 3 * j + q] = x[n, c, i, j]
    assert torch.equal(y, expected) and torch.equal(sample_phase(y, phase, stride), x)
    weights = torch.nn.functional.one_hot(phase, 6).double()
    assert torch.equal(polyphase_unpool2d(x, weights, stride), expected)
    per_channel = maps(2, 6, 3)
    spread = polyphase_unpool2d(x, per_channel, stride)
    for k in range(6):
        share = x * per_channel[:, k, :, None, None]
        torch.testing.assert_close(sample_phase(spread, torch.tensor([k, k]), stride), share)


def test_the_gradient_is_the_sampling_and_formats_stay():
    x = maps(1, 2, 3, 3).contiguous(memory_format=torch.channels_last).requires_grad_()
    phase = torch.tensor([2])
    y = polyphase_unpool2d(x, phase)
    grad = maps(1, 2, 6, 6)
    (back,) = torch.autograd.grad(y, x, grad)
    assert torch.equal(back, sample_phase(grad, phase, (2, 2)))
    assert y.is_contiguous(memory_format=torch.channels_last)


def test_a_blur_fills_the_zeros_and_keeps_a_constant():
    y = polyphase_unpool2d(torch.ones(1, 2, 3, 3), torch.tensor([3]), filter_size=3, output_size=(5, 6))
    assert y.shape == (1, 2, 5, 6) and torch.equal(y, torch.ones_like(y))


@pytest.mark.parametrize("name", ["aps", "lps", "max_aps"])
@pytest.mark.parametrize("filter_size", [1, 3])
def test_a_pair_commutes_with_every_circular_shift(name, filter_size):
    torch.manual_seed(0)
    pool, x = build(name, 4).double().eval(), maps(2, 4, 8, 12)

    def pair(x):
        phase = pool.choose(x)
        return polyphase_unpool2d(pool(x, phase), phase, filter_size=filter_size)

    expected = pair(x)
    for shift in itertools.product(range(8), range(12)):
        assert torch.equal(pair(x.roll(shift, (2, 3))), expected.roll(shift, (2, 3)))


@pytest.mark.parametrize(
    ("size", "phase", "options", "message"),
    [
        ((1, 2, 2), torch.tensor([0]), {}, r"takes floating-point \(N, C, H, W\)"),
        ((1, 2, 2, 2), torch.tensor([0, 1]), {}, r"phase must be \(1,\), got \(2,\)"),
        ((1, 2, 2, 2), torch.ones(1, 3), {}, r"phase must be \(1, 4\) or \(1, 4, 2\), got \(1, 3\)"),
        ((1, 2, 2, 2), torch.tensor([0]), {"output_size": (4, 2)}, r"output_size=\(4, 2\) is not"),
        ((1, 2, 2, 2), torch.tensor([0]), {"stride": 0}, "stride"),
    ],
    ids=["map", "count", "weights", "size", "stride"],
)
def test_wrong_arguments_are_refused(size, phase, options, message):
    with pytest.raises(ValueError, match=message):
        polyphase_unpool2d(torch.zeros(size), phase, **options)
