"""Networks that people have: those of torchvision and timm, Swin, Same convolutions, calls, stems, cost."""

import logging
import pickle
import re
from collections import OrderedDict
from functools import partial

import pytest
import timm
import torch
import torchvision
from timm import layers
from timm.models.swin_transformer import PatchMerging as TimmMerging
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close
from torchvision.models.swin_transformer import PatchMerging, PatchMergingV2

import cnnpool
from cnnpool.pool import AvgPool2d, BlurPool2d, MaxBlurPool2d, MaxPool2d
from cnnpool.surgery.carry_out import Cost, cost, costlier
from cnnpool.surgery.dense import DenseMerging, DenseSameConv2d

EXAMPLE = torch.zeros(1, 3, 16, 16)


class Permuted(nn.Module):
    """A merging of (N, H, W, C) in a network of (N, C, H, W)."""

    def __init__(self, merging):
        super().__init__()
        self.merging = merging

    def forward(self, x):
        return self.merging(x.movedim(1, -1)).movedim(-1, 1)


@pytest.mark.parametrize("merging", [PatchMerging, PatchMergingV2, TimmMerging])
def test_patch_merging_is_its_dense_form_subsampled(merging):
    for x in (torch.randn(2, 3, 16, 16), torch.randn(2, 3, 15, 9)):
        model = Permuted(merging(3)).eval()
        for norm in (m for m in model.modules() if isinstance(m, nn.LayerNorm)):
            nn.init.normal_(norm.weight), nn.init.normal_(norm.bias)
        expected = model(x)
        (change,) = cnnpool.swap(model, "subsample", example=x)
        assert change.name == "merging" and isinstance(model.merging, DenseMerging)
        torch.testing.assert_close(model(x), expected, rtol=0, atol=1e-6)
        cnnpool.swap(model, "avg", example=x)
        assert isinstance(model.merging.operator, AvgPool2d) and model(x).shape == expected.shape


class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.first(x)), 3, stride=2, padding=1)
        x = F.avg_pool2d(self.second(x), kernel_size=2)
        return self.head(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


def test_calls_become_modules_of_the_same_function():
    model, x = Functional(), torch.randn(2, 3, 16, 16)
    made = cnnpool.as_modules(model)
    assert torch.equal(made(x), model(x)) and made.first.weight is model.first.weight
    assert list(made.state_dict()) == list(model.state_dict()) and made.training
    assert repr(made.max_pool2d) == repr(nn.MaxPool2d(3, 2, 1))
    changes = cnnpool.swap(made, "max_blur", example=x)
    assert [change.name for change in changes] == ["max_pool2d", "avg_pool2d"]
    assert isinstance(made.max_pool2d, MaxBlurPool2d) and made(x).shape == (2, 2)
    (head,) = cnnpool.swap(made, "gem", example=x, where="head")
    assert head.name == "adaptive_avg_pool2d"

    # Inside a part they become modules there.
    model = nn.Sequential(nn.Conv2d(3, 3, 1), model)
    made = cnnpool.as_modules(model)
    assert torch.equal(made(x), model(x)) and isinstance(made[1].max_pool2d, nn.MaxPool2d)
    assert isinstance(model[1], Functional)


def test_a_part_with_two_names_is_one_part():
    part = Functional()
    made = cnnpool.as_modules(nn.ModuleDict({"a": part, "b": part}))
    assert made["a"] is made["b"] and isinstance(made["a"].max_pool2d, nn.MaxPool2d)


def strided():
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 20, 3, 2, 1), nn.MaxPool2d(2))


def test_before_a_convolution_the_operator_keeps_the_size_and_the_convolution_its_stride():
    model = strided()
    conv, x = model[0], torch.randn(2, 3, 16, 16)
    changes = cnnpool.swap(model, "blur", example=x, order="before")
    assert [change.name for change in changes] == ["0", "2", "3"]
    assert model[0][1] is conv and conv.stride == (2, 2)
    blur = model[0][0]
    assert isinstance(blur, BlurPool2d) and blur.output_size(16, 16) == (16, 16)
    torch.testing.assert_close(model[0](x), conv(blur(x)))
    # A pooling has no convolution to stand before.
    assert isinstance(model[3], BlurPool2d) and model(x).shape == (2, 20, 2, 2)


def test_stems_and_thin_maps_can_be_left_alone():
    assert [c.name for c in cnnpool.swap(strided(), "avg", example=EXAMPLE, skip_stem=True)] == ["2", "3"]
    assert [c.name for c in cnnpool.swap(strided(), "avg", example=EXAMPLE, min_channels=8)] == ["2", "3"]
    assert [c.name for c in cnnpool.swap(strided(), "avg", example=EXAMPLE, min_channels=9)] == ["3"]
    for chosen, model, said in (
        ({"min_channels": 21}, strided(), r"0 \(3 .*, 2 \(8 .*, 3 \(20 channels\) with min_channels=21$"),
        ({"skip_stem": True}, strided()[:1], r"of 0 \(3 channels\) with skip_stem=True$"),
    ):
        with pytest.raises(ValueError, match=said):
            cnnpool.swap(model, "avg", example=EXAMPLE, **chosen)


class Slicing(nn.Module):
    def forward(self, x):
        return x[..., ::2, ::2]


def test_a_module_that_downsamples_in_its_own_way_is_named_and_containers_are_not(caplog):
    model = nn.Sequential(nn.Sequential(nn.Conv2d(3, 4, 3), Slicing()), nn.MaxPool2d(2))
    cnnpool.swap(model, "avg", example=EXAMPLE)
    assert "left as they were: 0.1, which change the size of maps in their own way" in caplog.text


def test_cost_counts_products_and_elements():
    # 16 x 16 outputs of 4 channels, each of 27 products (two operations); then as many by a ReLU.
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.ReLU())
    assert cost(model, torch.zeros(5, 3, 16, 16)) == Cost(2 * 27 * 4 * 256, 2 * 4 * 256)


class Fusible(nn.Sequential):
    def fuse(self):
        return nn.Conv2d(3, 4, 3, 2)

    def switch_to_deploy(self, fine, coarse):
        return fine + coarse


def test_a_method_that_would_make_a_convolution_without_the_operator_is_named(caplog):
    def model():
        part = nn.Sequential(Fusible(nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4)), nn.MaxPool2d(2))
        part[0].register_module("reparameterize", nn.Identity())
        return nn.Sequential(part, Fusible(nn.MaxPool2d(2)))

    cnnpool.swap(model(), "blur", example=EXAMPLE)
    lost = "blur would be lost in fuse() of 0.0: re-parameterise or fuse before a swap"
    assert [record.getMessage() for record in caplog.records if "lost" in record.getMessage()] == [lost]
    caplog.clear()
    cnnpool.swap(model(), "blur", example=EXAMPLE, where="pool")
    assert "lost" not in caplog.text
    cnnpool.swap(Fusible(*model()), "blur", example=EXAMPLE, where="0")
    assert "blur would be lost in fuse() of the model and 1 more: " in caplog.text
    caplog.clear()
    cnnpool.swap(Fusible(OrderedDict(reparam_conv=nn.Conv2d(3, 4, 3, 2))), "blur", example=EXAMPLE)
    assert "lost" not in caplog.text


def test_a_swap_that_makes_a_network_much_costlier_says_so_after_saying_what_takes_so_long(
    caplog, monkeypatch
):
    caplog.set_level(logging.INFO)
    for name in ("SILENT_S", "LINES_S"):
        monkeypatch.setattr(f"cnnpool.system.progress.{name}", 0.0)
    model = nn.Sequential(nn.Conv2d(3, 128, 4, 4), nn.ReLU())
    cnnpool.swap(model, "blur", example=EXAMPLE)
    # 128 channels of 48 products: 4 x 4 outputs and a ReLU, then 13 x 13 outputs, a blur to 4 x 4 and a ReLU.
    costs = "197 k -> 2.08 M FLOPs of convolutions and matrix products, 4.10 k -> 25.7 k elements of maps"
    assert f"blur makes the model more expensive: {costs} an image" in caplog.text
    assert "trying blur in the model" in caplog.messages
    caplog.clear()
    cnnpool.swap(nn.Sequential(nn.Conv2d(3, 128, 4, 4), nn.ReLU()), "blur", example=EXAMPLE, order="before")
    assert "expensive" not in caplog.text
    assert costlier("x", Cost(4, 4), Cost(8, 8)) == "" and costlier("x", Cost(4, 4), Cost(4, 8.1))
    # Of a head without the advice that is for operators.
    model = nn.Sequential(nn.Conv2d(3, 64, 1), nn.AdaptiveAvgPool2d(1))
    cnnpool.swap(model, "clip_attention", example=EXAMPLE)
    assert "clip_attention makes the model more expensive" in caplog.text and "skip_stem" not in caplog.text


class DynamicPadding(nn.Conv2d):
    """Pads by its stride, as convolutions of efficientnet_pytorch and mmcv do under names of their own."""

    def forward(self, x):
        return super().forward(layers.pad_same(x, self.kernel_size, self.stride, self.dilation))


class Observing(DynamicPadding):
    """Keeps the largest value that it saw, as quantisers do, and draws."""

    def __init__(self, *args):
        super().__init__(*args)
        self.register_buffer("most", torch.zeros(()))

    def forward(self, x):
        self.most = torch.cat((self.most[None], (x + 0 * torch.rand_like(x)).flatten())).amax()
        return super().forward(x)


def test_convolutions_that_keep_what_they_saw_see_no_noise():
    conv, state = Observing(3, 4, 3, 2), torch.get_rng_state()
    cnnpool.swap(nn.Sequential(conv), "subsample", example=torch.full((1, 3, 12, 12), 0.5))
    assert conv.most <= 0.5 and torch.equal(torch.get_rng_state(), state)


class FixedPadding(nn.Conv2d):
    """Pads six pixels at the top and left, whatever its stride."""

    def forward(self, x):
        return super().forward(F.pad(x, (6, 0, 6, 0)))


KINDS = ["Conv2dSame", "StdConv2dSame", "ScaledStdConv2dSame", DynamicPadding, FixedPadding]
SIZES = [(3, 2), (5, 2), (7, 2), (1, 2), (2, 2), (3, 3), (3, 4), ((3, 5), (2, 3))]


def made(kind, kernel, stride, dilation=1):
    torch.manual_seed(0)
    # timm gives its standardised convolutions the padding by a word.
    more = {"padding": "SAME"} if "Std" in str(kind) else {}
    return (getattr(layers, kind) if isinstance(kind, str) else kind)(
        2, 3, kernel, stride=stride, dilation=dilation, **more
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize(("kernel", "stride"), SIZES)
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
    model = timm.create_model("tf_efficientnet_lite0", num_classes=4).eval()
    for size in (64, 75):
        x = torch.randn(2, 3, size, size)
        with torch.no_grad():
            before = model(x)
            after = timm.create_model("tf_efficientnet_lite0", num_classes=4).eval()
            after.load_state_dict(model.state_dict())
            cnnpool.swap(after, "subsample", example=x[:1], where="conv")
            assert_close(after(x), before, rtol=1e-4, atol=1e-5)


# Per model: max pooling and strided convolutions that downsample.
ZOO = {"resnet18": (1, 7), "mobilenet_v3_small": (0, 5), "densenet121": (1, 1)}


OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in list(ZOO)[1:]]


@pytest.mark.parametrize("name", ["resnet18", *OTHERS])
def test_max_in_place_of_max_pooling_changes_no_bit_and_subsample_keeps_the_function(name):
    model, x = getattr(torchvision.models, name)(num_classes=10).eval(), torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        before = model(x)
        if ZOO[name][0]:
            changes = cnnpool.swap(model, "max", example=x, where=lambda _, m: isinstance(m, nn.MaxPool2d))
            assert len(changes) == ZOO[name][0] and all(isinstance(c.after, MaxPool2d) for c in changes)
        assert torch.equal(model(x), before)
        assert len(cnnpool.swap(model, "subsample", example=x, where="conv")) == ZOO[name][1]
        # Its head by the mean that it takes itself.
        if name == "resnet18":
            (head,) = cnnpool.swap(model, "gap", example=x)
            assert head.name == "avgpool" and isinstance(head.before, nn.AdaptiveAvgPool2d)
        assert_close(model(x), before)
    assert not any(max(m.stride) > 1 for m in model.modules() if isinstance(m, nn.Conv2d))


LITE, RESNET = partial(timm.create_model, "tf_efficientnet_lite0"), torchvision.models.resnet18


def swapped(build, name, where, published=None, *, seed=0):
    """A network of four classes after a swap; ``published`` weights are loaded before it."""
    torch.manual_seed(seed)
    model = build(num_classes=4).eval()
    model.load_state_dict(published or model.state_dict())
    torch.manual_seed(1)
    cnnpool.swap(model, name, example=torch.zeros(1, 3, 64, 64), **where)
    return model


@pytest.mark.parametrize(
    ("build", "name", "where"),
    [
        (LITE, "max_blur", {}), (LITE, "conv_pool", {"order": "before"}),
        (RESNET, "blur", {"after": "activation"}), (RESNET, "attention", {"where": "head"}),
    ],
)  # fmt: skip
def test_weights_from_before_a_swap_and_from_after_it_are_loaded_after_it(build, name, where):
    x, published = torch.randn(2, 3, 64, 64), build(num_classes=4).state_dict()
    wanted, keys = swapped(build, name, where, published), set(published)
    made = swapped(build, name, where, seed=2)
    for model in (made, pickle.loads(pickle.dumps(made))):
        for weights in (published, wanted.state_dict()):
            assert model.load_state_dict(weights).missing_keys == []
            with torch.no_grad():
                assert torch.equal(model(x), wanted(x))
    assert set(published) == keys


def test_weights_that_a_swapped_network_lacks_are_named():
    model = swapped(LITE, "conv_pool", {"where": "conv_stem"})
    for missing in ("conv_stem.0.dense.weight", "conv_stem.1.conv.weight"):
        weights = model.state_dict()
        del weights[missing]
        with pytest.raises(RuntimeError, match=re.escape(missing)):
            model.load_state_dict(weights)


def test_weights_of_what_a_swap_removed_are_left_out():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), cnnpool.pool.build("conv_pool", 4))
    weights = model.state_dict()
    cnnpool.swap(model, "max", example=torch.zeros(1, 3, 8, 8))
    model.load_state_dict(weights)
    assert list(model.state_dict()) == ["0.weight", "0.bias"]
