"""Networks of other packages: as published by ``keep``, with any operator by surgery."""

import copy

import pytest
import torch
import torchvision
from torch import nn
from torch.nn import functional as F

import cnnpool
from cnnpool import choices, network, published
from cnnpool.fit import optimizers
from cnnpool.pool import AvgPool2d, MaxBlurPool2d
from cnnpool.published import Operators

KEEP = {"name": "keep"}


def build(
    arch="resnet18", package="torchvision", channels=3, size=(32, 32), readout=KEEP, weights=None, **chosen
):
    operators = Operators(chosen.pop("common", KEEP), chosen)
    return published.build(
        package, channels, size, 5, operators=operators, readout=readout, arch=arch, weights=weights
    )


def test_keep_is_the_network_as_published():
    net = build()
    torch.manual_seed(0)
    theirs = torchvision.models.resnet18(num_classes=5)
    x = torch.randn(2, 3, 32, 32)
    assert torch.equal(net.eval()(x), theirs.eval()(x))
    assert list(net.stages) == [
        "conv1", "maxpool", "layer2_0_conv1", "layer2_0_downsample_0",
        "layer3_0_conv1", "layer3_0_downsample_0", "layer4_0_conv1", "layer4_0_downsample_0",
    ]  # fmt: skip
    assert set(map(str, net.operators.values())) == {"{'name': 'keep'}"}


def test_the_common_operator_stands_at_every_stage_and_another_at_its_own():
    net = build(common={"name": "max_blur"}, maxpool={"name": "avg"}, conv1=KEEP)
    kinds = {stage: type(module) for stage, module in net.stages.items()}
    assert kinds.pop("conv1") is nn.Conv2d and kinds.pop("maxpool") is AvgPool2d
    assert set(kinds.values()) == {MaxBlurPool2d} and len(kinds) == 6
    assert net.operators["maxpool"] == {"name": "avg"} and net.operators["conv1"] == KEEP
    # The window, stride and padding of what it replaces.
    assert net.stages["maxpool"].kernel_size == (3, 3) or net.stages["maxpool"].kernel_size == 3
    assert net(torch.randn(2, 3, 32, 32)).shape == (2, 5)


def test_gray_images_are_seen_three_times():
    net = build(channels=1).eval()
    x = torch.randn(2, 1, 32, 32)
    assert torch.equal(net(x), net.network(x.repeat(1, 3, 1, 1)))


def test_of_auxiliary_outputs_the_first_counts():
    class Auxiliary(nn.Module):
        def forward(self, x):
            return x.mean((2, 3)), x.sum((2, 3))

    net = published.Published(Auxiliary(), {}, {}, published.weights.Loaded("random"))
    x = torch.randn(2, 3, 4, 4)
    assert torch.equal(net(x), x.mean((2, 3)))


def test_images_too_small_for_an_auxiliary_head_are_refused_before_training():
    class Headed(nn.Module):
        aux_logits = True

        def __init__(self):
            super().__init__()
            self.norm, self.head = nn.BatchNorm2d(3), nn.Conv2d(3, 5, 8)

        def forward(self, x):
            y = F.dropout(self.norm(x), training=self.training).mean((2, 3))
            return (y, self.head(x)) if self.training else y

    net = published.Published(Headed(), {}, {}, published.weights.Loaded("random"))
    before, drawn = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    net.try_training((8, 8))
    with pytest.raises(ValueError, match=r"does not run in training on images \(2, 3, 7, 8\): Calc"):
        net.try_training((7, 8))
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    assert torch.equal(torch.get_rng_state(), drawn)


def test_a_stage_that_the_operator_cannot_replace_stays_and_is_named(caplog, monkeypatch):
    exchange = published.build.__globals__["exchange"]

    def refuse(*asked, where, **options):
        if where("maxpool", None):
            raise ValueError("max_blur cannot replace maxpool: no")
        return exchange(*asked, where=where, **options)

    monkeypatch.setitem(published.build.__globals__, "exchange", refuse)
    net = build(common={"name": "max_blur"})
    assert isinstance(net.stages["maxpool"], nn.MaxPool2d) and net.operators["maxpool"] == KEEP
    assert net.operators["conv1"] == {"name": "max_blur"}
    assert "maxpool stays as it is: max_blur cannot replace maxpool: no" in caplog.text
    with pytest.raises(ValueError, match="cannot replace maxpool"):
        build(maxpool={"name": "max_blur"})


@pytest.mark.parametrize("words", [
    ["pool@stage.maxpool=soft", "readout=gem"], ["pool=unshuffle"],
    ["pool=conv_blur", "pool.order=blur_conv", "model.order=before"], ["pool=blur", "model.after=activation"],
])  # fmt: skip
def test_a_network_is_rebuilt_from_its_record_as_it_was_built(words):
    tiny = ["model=torchvision:resnet18", "data=digits", "data.size=48", "data.limit=8"]
    built = cnnpool.classifier(*tiny, *words)
    made = built.hparams["network"]
    names, images = ("model", "stages", "readout"), network.Images(1, (48, 48), 10)
    again = network.rebuild(*(made[name] for name in names), images, seed=1)
    again.load_state_dict(built.model.state_dict())
    x = torch.randn(2, 1, 48, 48)
    torch.testing.assert_close(again.eval()(x), built.model.eval()(x))


@pytest.mark.parametrize(("arch", "words"), [
    ("resnet18", ["pool=max_blur", "model.order=before"]), ("swin_t", ["pool=max_blur"]),
    ("mobilenet_v2", ["pool=blur", "model.after=activation"]),
])  # fmt: skip
def test_levels_of_resolution_are_those_of_the_network_as_published(arch, words):
    found = []
    for chosen in (["pool=keep"], words):
        net = cnnpool.classifier(f"model=torchvision:{arch}", "data=digits", "data.size=64", *chosen).model
        names = {module: name.removesuffix(".0").removesuffix(".1") for name, module in net.named_modules()}
        levels = optimizers.levels(net, torch.zeros(1, 1, 64, 64))
        found.append([{names[m] for m in level.modules if "downsample" not in names[m]} for level in levels])
        # Maps of Swin's own patch merging end in channels, which probes cannot read.
        assert all(module(torch.zeros(1, 3, 64, 64)).dim() == 4 for module in list(net.stages.values())[:1])
    assert len(found[0]) == len(found[1])
    if arch == "resnet18":
        assert found[0] == found[1]


def test_the_head_becomes_the_readout():
    net = build(readout={"name": "gem"})
    assert "GeM" in repr(net.network.avgpool) and net(torch.randn(2, 3, 32, 32)).shape == (2, 5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"arch": "resnet19"}, "be a classifier of torchvision, got 'resnet19'; did you mean 'resnet1"),
        ({"arch": "test_resnett", "package": "timm"}, "be a model of timm, got 'test_resnett'; did you mean"),
        ({"weights": "V9"}, "weights must be default, IMAGENET1K_V1, or a file, got 'V9'"),
        ({"arch": "test_resnet", "package": "timm", "weights": "v2"}, "be default or a file, got 'v2'"),
        ({"arch": "nobody:s", "package": "installed"}, "no network named 'nobody:s'"),
        ({"package": "keras"}, "no network named 'keras'; choose from installed, timm, torchvision"),
        ({"maxpoll": {"name": "avg"}}, "stage.maxpoll: the network has no such stage; did you mean 'maxp"),
        ({"channels": 2}, "take 1 or 3 channels, not 2"),
        ({"arch": "vit_b_16"}, "vit_b_16: the model does not run on an example"),
        ({"weights": "nowhere/x.safetensors"}, "nowhere/x.safetensors: no such file"),
    ],
)
def test_mistakes_are_one_line(options, said):
    with pytest.raises(ValueError, match=said) as caught:
        build(**options)
    assert "\n" not in str(caught.value)


def test_published_packages_are_known_without_torch():
    assert set(choices.PUBLISHED) == set(published.PUBLISHED)


def test_published_weights_bring_their_scale(monkeypatch):
    entry = torchvision.models.ResNet18_Weights.DEFAULT
    state = torchvision.models.resnet18().state_dict()
    monkeypatch.setattr(type(entry), "get_state_dict", lambda self, **options: state)
    net = build(weights="default")
    assert net.loaded.new == ("fc.weight", "fc.bias") and net.loaded.source == f"torchvision {entry}"
    assert net.loaded.mean == (0.485, 0.456, 0.406) and net.loaded.std == (0.229, 0.224, 0.225)
    assert torch.equal(net.network.conv1.weight, state["conv1.weight"])


def test_weights_that_cannot_be_fetched_are_one_line(monkeypatch):
    def fail(self, **options):
        raise OSError("<urlopen error no network>")

    monkeypatch.setattr(torchvision.models.ResNet18_Weights, "get_state_dict", fail)
    with pytest.raises(ValueError, match="could not be fetched: <urlopen error no network>"):
        build(weights="default")
