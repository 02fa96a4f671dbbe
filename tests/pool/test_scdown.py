"""SCDown's two convolutions against torch's."""

import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from cnnpool.pool import ScdownConv2d


def test_two_by_two_worked_by_hand():
    op = ScdownConv2d(2, inner_activation="relu")
    op.mix.weight.data = torch.tensor([[1.0, 1.0], [1.0, -1.0]]).view(2, 2, 1, 1)
    torch.nn.init.ones_(op.conv.weight)
    for bias in (op.mix.bias, op.conv.bias):
        torch.nn.init.zeros_(bias)
    x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]], [[0.0, 3.0], [1.0, 5.0]]]])
    # Sums 1 5 / 4 9 and differences 1 -1 / 2 -1, of which two are cut off.
    assert op(x).flatten().tolist() == [19.0, 3.0]


@settings(max_examples=40)
@given(
    size=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    channels=st.integers(1, 4),
    kernel=st.sampled_from([1, 3, 5, (3, 1)]),
    stride=st.integers(1, 3),
)
def test_it_is_the_formula_by_torchs_functions(size, channels, kernel, stride):
    op, x = (
        ScdownConv2d(channels, kernel_size=kernel, stride=stride).double(),
        torch.randn(2, channels, *size, dtype=torch.float64),
    )
    mixed = F.silu(F.conv2d(x, op.mix.weight, op.mix.bias))
    padding = tuple(k // 2 for k in op.kernel_size)
    expected = F.conv2d(mixed, op.conv.weight, op.conv.bias, stride, padding, groups=channels)
    assert_close(op(x), expected)
    assert op(x).shape[2:] == op.output_size(*size) == tuple(-(-n // stride) for n in size)


def test_norm_follows_each_convolution_and_an_activation_each_norm():
    op, x = (
        ScdownConv2d(3, norm="batch", activation="gelu").double(),
        torch.randn(4, 3, 8, 8, dtype=torch.float64),
    )
    assert op.mix.bias is None and op.conv.bias is None
    mixed = F.silu(F.batch_norm(F.conv2d(x, op.mix.weight), None, None, training=True))
    convolved = F.conv2d(mixed, op.conv.weight, stride=2, padding=1, groups=3)
    assert_close(op(x), F.gelu(F.batch_norm(convolved, None, None, training=True)))
