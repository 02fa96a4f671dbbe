"""Swapping the downsampling of models people have: same shapes, and the same bits where it must."""

import copy

import pytest
import torch
import torchvision
from torch import nn
from torch.testing import assert_close

import cnnpool
from cnnpool.pool import MaxPool2d
from cnnpool.readout import GlobalMaxPool2d

# Per model: max, average and strided convolutions that downsample, and whether its head is a module.
ZOO = {
    "resnet18": (1, 0, 7, True),
    "mobilenet_v3_small": (0, 0, 5, True),
    "densenet121": (1, 3, 1, False),
}
EXAMPLE = torch.zeros(1, 3, 64, 64)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture(scope="module", params=ZOO)
def untouched(request):
    """A model of torchvision with random weights, and its name."""
    torch.manual_seed(0)
    model = getattr(torchvision.models, request.param)(weights=None, num_classes=10)
    return model.eval(), request.param


@pytest.fixture
def zoo(untouched):
    return copy.deepcopy(untouched[0]), untouched[1]


def images():
    return torch.randn(2, 3, 64, 64)


def test_max_in_place_of_max_pooling_changes_no_bit_and_subsample_keeps_the_function(zoo):
    model, name = zoo
    x = images()
    with torch.no_grad():
        before = model(x)
        if ZOO[name][0]:
            changes = cnnpool.swap(
                model, "max", example=EXAMPLE, where=lambda _, m: isinstance(m, nn.MaxPool2d)
            )
            assert len(changes) == ZOO[name][0] and all(isinstance(c.after, MaxPool2d) for c in changes)
        assert torch.equal(model(x), before)
        assert len(cnnpool.swap(model, "subsample", example=EXAMPLE, where="conv")) == ZOO[name][2]
        assert_close(model(x), before)
    assert not any(max(m.stride) > 1 for m in model.modules() if isinstance(m, nn.Conv2d))


@pytest.mark.parametrize("operator", ["avg", "depthwise"])
def test_swapped_model_keeps_its_shapes_and_trains_a_step(zoo, operator):
    model, name = zoo
    changes = cnnpool.swap(model, operator, example=EXAMPLE)
    assert len(changes) == sum(ZOO[name][:3])
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    logits = model(images())
    assert logits.shape == (2, 10)
    nn.functional.cross_entropy(logits, torch.tensor([1, 2])).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    optimizer.step()


def test_head_becomes_the_readout_where_it_is_a_module(zoo):
    model, name = zoo
    if not ZOO[name][3]:
        with pytest.raises(ValueError, match=r"nothing to replace.*torch\.nn\.functional do not count"):
            cnnpool.swap(model, "gmp", example=EXAMPLE)
        return
    x = images()
    before = model(x)
    (same,) = cnnpool.swap(model, "gap", example=EXAMPLE)
    assert_close(model(x), before)
    assert same.name == "avgpool" and isinstance(same.before, nn.AdaptiveAvgPool2d)
    cnnpool.swap(model, "gem", example=EXAMPLE, where="head", p=2.0)
    assert model(x).shape == before.shape and not torch.allclose(model(x), before)


@pytest.mark.parametrize("blurred", [False, True])
def test_timms_resnet50_is_swapped_as_torchvisions(blurred):
    timm = pytest.importorskip("timm")
    options = {"aa_layer": timm.layers.BlurPool2d} if blurred else {}
    model, x = timm.create_model("resnet50", num_classes=7, **options).eval(), images()
    before = model(x)
    pools = cnnpool.swap(model, "avg" if blurred else "max", example=EXAMPLE, where="pool")
    if blurred:
        assert {type(change.before).__name__ for change in pools} == {"BlurPool2d"} and len(pools) == 4
    else:
        assert [change.name for change in pools] == ["maxpool"] and torch.equal(model(x), before)
    (head,) = cnnpool.swap(model, "gmp", example=EXAMPLE)
    assert head.name == "global_pool" and isinstance(head.after, GlobalMaxPool2d)
    model.train()(x).square().sum().backward()
    assert model(x).shape == before.shape


def test_head_is_the_last_global_pooling_and_not_that_of_an_attention_block():
    model = torchvision.models.mobilenet_v3_small(weights=None)
    squeezes = [n for n, m in model.named_modules() if isinstance(m, nn.AdaptiveAvgPool2d) and n != "avgpool"]
    assert [c.name for c in cnnpool.swap(model, "gap", example=EXAMPLE)] == ["avgpool"]
    assert [c.name for c in cnnpool.swap(model, "gmp", example=EXAMPLE, where="features")] == squeezes
