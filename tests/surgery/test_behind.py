"""Operators behind the activation of a strided convolution, against Zhang's networks typed anew."""

import copy
import logging
from collections import OrderedDict

import pytest
import torch
import torchvision
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close
from torchvision.models import vgg

import cnnpool


class Blur(nn.Module):
    """Zhang's BlurPool of 3 taps in antialiased_cnns: reflected, then a strided depthwise convolution."""

    def forward(self, x):
        taps = torch.tensor([1.0, 2.0, 1.0])
        weight = (taps[:, None] * taps / 16).expand(x.shape[1], 1, 3, 3)
        return F.conv2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), weight, stride=2, groups=x.shape[1])


def dense(conv):
    conv.stride = (1, 1)
    return conv


def zhang_resnet(model):
    """antialiased_cnns.resnet: conv1, norm, ReLU, blur, conv2; and a blur before a shortcut's convolution."""
    for layer in (model.layer2, model.layer3, model.layer4):
        block, last = layer[0], 2 if isinstance(layer[0], torchvision.models.resnet.BasicBlock) else 3
        dense(getattr(block, f"conv{last - 1}"))
        setattr(block, f"conv{last}", nn.Sequential(Blur(), getattr(block, f"conv{last}")))
        block.downsample = nn.Sequential(Blur(), dense(block.downsample[0]), block.downsample[1])


def zhang_mobilenet(model):
    """antialiased_cnns.mobilenet: a blur between a block's ReLU6 and its last convolution."""
    for block in model.features[1:-1]:
        depthwise = block.conv[-3]
        if depthwise[0].stride == (2, 2):
            dense(depthwise[0])
            block.conv[-3] = nn.Sequential(depthwise, Blur())


def zhang_vgg(model):
    """antialiased_cnns.vgg: a dense maximum and a blur."""
    for at, module in enumerate(model.features):
        if isinstance(module, nn.MaxPool2d):
            # Theirs loses a row and a column; behind a ReLU zeros win nothing, nor do cells outside in ours.
            model.features[at] = nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), nn.MaxPool2d(2, 1), Blur())


def made(arch):
    if arch != "vgg16_bn":
        return torchvision.models.get_model(arch, weights=None, num_classes=5)
    # Without its 120 million weights behind the maps.
    return nn.Sequential(OrderedDict(features=vgg.make_layers(vgg.cfgs["D"], batch_norm=True)))


def two(arch, size):
    """A network of torchvision twice, in training, with norms as if trained, and images."""
    torch.manual_seed(0)
    model, same = (made(arch) for _ in range(2))
    for norm in (m for m in model.modules() if isinstance(m, nn.BatchNorm2d)):
        nn.init.normal_(norm.weight, 1, 0.2), nn.init.normal_(norm.bias)
    same.load_state_dict(model.state_dict())
    for dropout in (m for net in (model, same) for m in net.modules() if isinstance(m, nn.Dropout)):
        dropout.p = 0.0
    return model, same, torch.randn(2, 3, size, size)


@pytest.mark.parametrize(("arch", "zhang", "operator", "options"), [
    ("resnet18", zhang_resnet, "blur", {"where": "layer"}),
    ("resnet50", zhang_resnet, "blur", {"where": "layer"}),
    ("mobilenet_v2", zhang_mobilenet, "blur", {"skip_stem": True}),
    ("vgg16_bn", zhang_vgg, "max_blur", {}),
])  # fmt: skip
def test_a_blur_behind_the_activation_makes_zhangs_network(arch, zhang, operator, options):
    model, theirs, x = two(arch, 64)
    zhang(theirs)
    cnnpool.swap(model, operator, example=x, after="activation", **options)
    for mode in (True, False):
        model.train(mode), theirs.train(mode)
        y, expected = model(x), theirs(x)
        assert_close(y, expected, rtol=1e-3, atol=1e-4 * expected.abs().max().item())


class Net(nn.Module):
    """A strided convolution, and whatever a case puts behind it."""

    def __init__(self, run, **layers):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, 2, 1)
        self.norm, self.act, self.next = nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Conv2d(4, 4, 3, 1, 1)
        self.run = run
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, x):
        return self.run(self, x)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, 2, 1, bias=False), nn.BatchNorm2d(4)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)), inplace=True)


def test_weights_from_before_and_after_the_swap_load_where_a_block_has_the_activation():
    model = nn.Sequential(Block(), nn.Conv2d(4, 2, 1))
    before = {
        name: torch.rand_like(value) if "weight" in name else value.clone()
        for name, value in model.state_dict().items()
    }
    cnnpool.swap(model, "depthwise", example=torch.zeros(1, 3, 8, 8), after="activation")
    after = copy.deepcopy(model.state_dict())
    model.load_state_dict(before)
    assert torch.equal(model[0][0].conv.weight, before["0.conv.weight"])
    assert torch.equal(model[0][1].conv.weight, after["0.1.conv.weight"])
    model.load_state_dict(after)
    assert all(torch.equal(value, after[name]) for name, value in model.state_dict().items())


def twice(net, x):
    return net.act(net.next(net.act(net.norm(net.conv(x)))))


def branched(net, x):
    y = net.act(net.norm(net.conv(x)))
    return net.next(y) + y


def by_calls(net, x):
    return net.next(F.relu(net.norm(net.conv(x))))


def frozen(net, x):
    return net.act(net.conv(x) * net.norm.weight[:, None, None] + net.norm.bias[:, None, None])


def padded_by_stride(net, x):
    x = F.pad(x, [net.conv.stride[0] - 1, 0] * 2)
    return net.act(net.norm(net.conv(x)))[..., 1:, 1:]


def in_a_block(net, x):
    y = net.block(x)
    return net.next(y) + y


@pytest.mark.parametrize(("run", "at"), [
    (twice, "before next"), (branched, "behind act"), (by_calls, "before next"), (frozen, "behind act"),
    (padded_by_stride, "behind act"),
    (in_a_block, "behind block"), (lambda net, x: net.act(net.conv(x)), "behind act"),
])  # fmt: skip
def test_the_operator_stands_where_alone_the_activation_passes(run, at, caplog):
    torch.manual_seed(0)
    model, x = Net(run, **({"block": Block()} if run is in_a_block else {})).eval(), torch.randn(2, 3, 9, 8)
    conv, seen = "block.conv" if run is in_a_block else "conv", []
    place, name = at.split()
    getattr(model, name).register_forward_hook(lambda module, given, y: seen.append(y.shape))
    expected, before = model(x), seen.copy()
    with caplog.at_level(logging.INFO):
        (change,) = cnnpool.swap(model, "subsample", example=x, after="activation")
    assert f"subsample replaces {conv} ({at})" in caplog.messages and "left as" not in caplog.text
    assert change.name == conv and change.after is getattr(model, name)[int(place == "behind")]
    # Sampling pixels behind what treats each pixel alone is the network as it was.
    seen.clear()
    assert torch.equal(model(x), expected) and seen == before and len(seen) == 1
    model(x).sum().backward()
    conv = model.get_submodule("block.0.conv" if run is in_a_block else conv)
    assert conv.stride == (2, 2) and conv[0].stride == (1, 1) and conv.weight.grad.any()


def test_a_layer_in_place_makes_another_map_in_inference_mode_too():
    with torch.inference_mode():
        model, x = Net(twice).eval(), torch.randn(2, 3, 8, 8)
        expected = model(x)
        (change,) = cnnpool.swap(model, "subsample", example=x, where="conv$", after="activation")
        assert change.after is model.next[0] and torch.equal(model(x), expected)


def read_twice(net, x):
    y = net.conv(x)
    return net.act(net.norm(y)) + y


def shared_and_branched(net, x):
    y = net.act(net.norm(net.conv(x)))
    return net.act(net.next(y)) + y


def two_convs(net, x):
    return net.act(net.conv(net.act(net.conv(x))[:, :3]))


def returned(net, x):
    y = net.conv(x)
    return net.act(net.norm(y)), y


def added(net, x):
    return net.act(net.norm(net.conv(x)) + F.avg_pool2d(x, 2)[:, :1])


@pytest.mark.parametrize("run", [
    read_twice, shared_and_branched, two_convs, returned, added,
    lambda net, x: net.norm(net.conv(x)), lambda net, x: net.act(net.next(net.conv(x))),
])  # fmt: skip
def test_a_convolution_whose_activation_cannot_be_followed_is_swapped_as_ever(run, caplog):
    torch.manual_seed(0)
    model, x = Net(run).eval(), torch.randn(2, 3, 16, 16)
    expected = model(x)
    cnnpool.swap(model, "subsample", example=x, where="conv", after="activation")
    assert isinstance(model.conv, nn.Sequential)
    assert_close(model(x), expected, rtol=0, atol=1e-6)
    assert ("follows conv at once" in caplog.text) == (run is shared_and_branched)


class Sized(Block):
    """Returns its activation's map, which it also reads."""

    def forward(self, x):
        y = super().forward(x)
        self.read = y.mean()
        return y


def into_a_stage(net, x):
    return net.stage(F.relu(net.norm(net.conv(x))))


@pytest.mark.parametrize("run", [in_a_block, into_a_stage])
def test_no_operator_stands_around_a_module_that_reads_the_map_or_is_a_stage(run, caplog):
    torch.manual_seed(0)
    model, x = Net(run, block=Sized(), stage=nn.Conv2d(4, 4, 3, 2, 1)).eval(), torch.randn(2, 3, 16, 16)
    expected = model(x)
    changes = cnnpool.swap(model, "subsample", example=x, after="activation")
    conv = "block.conv" if run is in_a_block else "conv"
    assert [change.name for change in changes] == ([conv] if run is in_a_block else [conv, "stage"])
    assert_close(model(x), expected, rtol=0, atol=1e-6)
    assert f"follows {conv} at once" in caplog.text


def test_a_refused_swap_behind_activations_leaves_the_network_alone():
    model, x = Net(in_a_block, block=Block()), torch.randn(1, 3, 8, 8)
    before = repr(model)
    with pytest.raises(ValueError, match=r"none cannot replace block\.conv: makes"):
        cnnpool.swap(model, "none", example=x, after="activation", where="block")
    assert repr(model) == before and model(x).shape == (1, 4, 4, 4)


NETWORKS = {"alexnet": 1, "densenet121": 1, "efficientnet_b0": 5, "inception_v3": 5, "shufflenet_v2_x0_5": 7}


@pytest.mark.slow
@pytest.mark.parametrize("arch", NETWORKS)
def test_subsampling_behind_activations_leaves_networks_as_they_are(arch):
    torch.manual_seed(0)
    extra = {"init_weights": False} if arch == "inception_v3" else {}
    model = torchvision.models.get_model(arch, weights=None, **extra).eval()
    x = torch.randn(1, 3, *(2 * [128 if arch == "inception_v3" else 64]))
    expected = model(x)
    changes = cnnpool.swap(model, "subsample", example=x, where="conv", after="activation")
    assert len(changes) == NETWORKS[arch]
    assert_close(model(x), expected, rtol=1e-4, atol=1e-5 * expected.abs().max().item())
    cnnpool.swap(model, "blur", example=x)
    assert model(x).shape == expected.shape
