"""Convolutions that pad by their stride, made dense: the same samples as before."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import cnnpool
from cnnpool.surgery.dense import DenseSameConv2d

timm = pytest.importorskip("timm")
layers = pytest.importorskip("timm.layers")

KINDS = ["Conv2dSame", "StdConv2dSame", "ScaledStdConv2dSame"]


def made(kind, kernel, stride, dilation=1):
    torch.manual_seed(0)
    # timm gives its standardised convolutions the padding by a word.
    more = {} if kind == "Conv2dSame" else {"padding": "SAME"}
    return getattr(layers, kind)(2, 3, kernel, stride=stride, dilation=dilation, **more)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize(
    ("kernel", "stride"), [(3, 2), (5, 2), (7, 2), (1, 2), (2, 2), (3, 3), (3, 4), ((3, 5), (2, 3))]
)
def test_subsampling_behind_it_is_the_convolution_as_it_was_at_every_size(kind, kernel, stride, dilation):
    conv = made(kind, kernel, stride, dilation)
    model = nn.Sequential(conv)
    cnnpool.swap(model, "subsample", example=torch.zeros(1, 2, 16, 16))
    for size in ((12, 12), (13, 12), (11, 14), (9, 17)):
        x = torch.randn(2, 2, *size)
        with torch.no_grad():
            assert_close(model(x), conv(x))


def test_by_hand_a_window_of_three_at_stride_two():
    conv = layers.Conv2dSame(1, 1, (1, 3), stride=(1, 2), bias=False)
    with torch.no_grad():
        conv.weight.copy_(torch.tensor([1.0, 10.0, 100.0]).view(1, 1, 1, 3))
        dense = DenseSameConv2d(layers.Conv2dSame(1, 1, (1, 3), bias=False), (1, 2))
        dense.dense.weight.copy_(conv.weight)
        # Of four pixels SAME pads one zero, behind them: windows 123 and 34 with a zero.
        x = torch.tensor([1.0, 2.0, 3.0, 4.0]).view(1, 1, 1, 4)
        assert conv(x).flatten().tolist() == [321, 43]
        assert dense(x).flatten().tolist() == [321, 432, 43, 4]


def test_a_published_network_that_pads_by_its_stride_stays_the_same_function():
    torch.manual_seed(0)
    model = timm.create_model("tf_efficientnet_lite0", num_classes=4).eval()
    for size in (64, 75):
        x = torch.randn(2, 3, size, size)
        with torch.no_grad():
            before = model(x)
            after = timm.create_model("tf_efficientnet_lite0", num_classes=4).eval()
            after.load_state_dict(model.state_dict())
            cnnpool.swap(after, "subsample", example=x[:1], where="conv")
            assert_close(after(x), before, rtol=1e-4, atol=1e-5)
