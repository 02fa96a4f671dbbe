"""Space to depth against torch's, and with its convolution against a convolution of kernel = stride."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close
from torchvision.models.swin_transformer import PatchMerging

from cnnpool.pool import PatchConv2d, UnshuffleConv2d, pixel_unshuffle2d


@settings(max_examples=40)
@given(
    size=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.integers(1, 4),
    channels=st.integers(1, 3),
    layout=st.sampled_from([torch.contiguous_format, torch.channels_last]),
)
def test_it_is_torchs_pixel_unshuffle_in_either_memory_format(size, stride, channels, layout):
    x = torch.randn(2, channels, stride * size[0], stride * size[1], dtype=torch.float64).contiguous(
        memory_format=layout
    )
    y = pixel_unshuffle2d(x, stride)
    assert torch.equal(y, F.pixel_unshuffle(x, stride))
    assert torch.equal(F.pixel_shuffle(y, stride), x)


@pytest.mark.parametrize("stride", [2, 3, (2, 3)])
def test_with_a_1x1_convolution_it_is_a_convolution_of_kernel_equal_to_stride(stride):
    op = UnshuffleConv2d(3, stride=stride).double()
    patch = PatchConv2d(3, stride=stride).double()
    weight = op.conv.weight.reshape(3, 3, *op.stride)
    x = torch.randn(2, 3, 6, 12, dtype=torch.float64)
    assert_close(op(x), F.conv2d(x, weight, op.conv.bias, op.stride), rtol=1e-12, atol=1e-12)
    patch.load_state_dict({**patch.state_dict(), "conv.weight": weight, "conv.bias": op.conv.bias})
    assert_close(op(x), patch(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [(1, 1), (1, 6), (5, 4), (7, 9)])
def test_ragged_cells_are_filled_with_zeros(size):
    op, x = UnshuffleConv2d(3, stride=2).double(), torch.randn(2, 3, *size, dtype=torch.float64)
    whole = F.pad(x, (0, size[1] % 2, 0, size[0] % 2))
    assert torch.equal(op(x), op(whole))
    assert op(x).shape[2:] == op.output_size(*size) == tuple(-(-n // 2) for n in size)


def test_ragged_size_is_refused_on_request_with_its_numbers():
    op = UnshuffleConv2d(1, stride=(2, 3), ragged="refuse")
    assert op.output_size(4, 6) == op(torch.zeros(1, 1, 4, 6)).shape[2:]
    for size in [(7, 6), (4, 8)]:
        message = rf"H and W must be multiples of stride=\(2, 3\), got a {size[0]}x{size[1]} map"
        with pytest.raises(ValueError, match=message):
            op(torch.zeros(1, 1, *size))
        with pytest.raises(ValueError, match=message):
            op.output_size(*size)
        with pytest.raises(ValueError, match=message):
            pixel_unshuffle2d(torch.zeros(1, 1, *size), (2, 3))


@pytest.mark.parametrize("size", [(6, 8), (7, 4), (1, 1)])
def test_with_layer_normalisation_it_is_torchvisions_patch_merging(size):
    op, merging = UnshuffleConv2d(3, order="cell", norm="layer").double(), PatchMerging(3).double()
    torch.nn.init.normal_(merging.norm.weight)
    torch.nn.init.normal_(merging.norm.bias)
    op.before.load_state_dict(merging.norm.state_dict())
    # Patch merging doubles the channels; each of them has a row of weights of its own.
    op.conv.weight.data = merging.reduction.weight[:3, :, None, None]
    x = torch.randn(2, 3, *size, dtype=torch.float64)
    assert op.conv.bias is None
    assert_close(op(x), merging(x.movedim(1, -1)).movedim(-1, 1)[:, :3])


@settings(max_examples=30)
@given(
    cells=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    norm=st.sampled_from(["none", "batch", "layer"]),
    layout=st.sampled_from([torch.contiguous_format, torch.channels_last]),
)
def test_the_order_only_renames_the_weights(cells, stride, norm, layout):
    ops = [
        UnshuffleConv2d(2, stride=stride, order=order, norm=norm).double() for order in ("channel", "cell")
    ]
    sh, sw = stride
    ops[1].load_state_dict(ops[0].state_dict())
    place = torch.arange(2 * sh * sw).view(2, sh, sw).permute(2, 1, 0).flatten()
    ops[1].conv.weight.data = ops[0].conv.weight[:, place]
    x = torch.randn(2, 2, cells[0] * sh, cells[1] * sw, dtype=torch.float64).contiguous(memory_format=layout)
    first, second = (op(x) for op in ops)
    assert_close(first, second)
    assert second.is_contiguous(memory_format=layout)


def test_larger_kernel_sees_the_neighbouring_cells():
    op = UnshuffleConv2d(2, kernel_size=3).double()
    x = torch.randn(1, 2, 12, 12, dtype=torch.float64).requires_grad_()
    y = op(x)
    assert_close(y, F.conv2d(F.pixel_unshuffle(x, 2), op.conv.weight, op.conv.bias, padding=1))
    (grad,) = torch.autograd.grad(y[0, 0, 3, 3], x)
    reached = (grad[0, 0] != 0).nonzero()
    assert reached.amin(0).tolist() == [4, 4] and reached.amax(0).tolist() == [9, 9]
