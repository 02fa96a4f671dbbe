"""Rates by depth, frozen levels, frozen normalisation."""

import pytest
import torch
from torch import nn

from cnnpool.fit import Classifier, optimizers
from cnnpool.fit.layers import frozen_norms, is_uniform, levels, plan
from cnnpool.model import build
from cnnpool.pool import build as build_pool
from cnnpool.readout import build as build_readout
from cnnpool.recipe import Recipe


@pytest.fixture
def model():
    torch.manual_seed(0)
    return build(
        "convnet", 1, (16, 16), 10, width=2,
        pool=lambda stage, channels: build_pool("strided", channels),
        readout=lambda channels, size: build_readout("gap", channels, size),
    )  # fmt: skip


EXAMPLE = torch.zeros(1, 1, 16, 16)


def test_levels_are_resolutions_and_hold_every_parameter_once(model):
    found = levels(model, EXAMPLE)
    sizes = [[type(module).__name__ for module in level.modules] for level in found]
    # conv 1, stage s1 | conv 2, stage s2 | conv 3, conv 4 | the classifier.
    assert [names.count("Conv2d") + names.count("StridedConv2d") for names in sizes[:3]] >= [1, 1, 2]
    assert found[3].modules == [model.classifier] and len(found) == 4
    parameters = [p for level in found for p in level.parameters]
    assert len(parameters) == len(set(parameters)) and set(parameters) == set(model.parameters())


def test_rates_fall_with_every_level_and_the_head_has_its_own(model):
    recipe = Recipe(layer_decay=0.5, head_rate=10.0, lr=0.1, optimizer="sgd", schedule="constant", warmup=0.0)
    found = plan(model, recipe, EXAMPLE)
    assert [level.scale for level in found] == [0.125, 0.25, 0.5, 10.0]
    optimizer = optimizers.build(recipe, model.parameters(), found)
    held = {p: group["lr"] for group in optimizer.param_groups for p in group["params"]}
    assert held[model.classifier.weight] == pytest.approx(1.0)
    assert held[next(model.parameters())] == pytest.approx(0.0125)
    assert set(held) == set(model.parameters())
    decays = {p.ndim > 1: group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    assert decays == {True: recipe.weight_decay, False: 0.0}


def test_frozen_levels_take_no_gradient_and_keep_their_statistics(model):
    recipe = Recipe(freeze=2)
    found = plan(model, recipe, EXAMPLE)
    assert [level.trained for level in found] == [False, False, True, True]
    assert [bool(level.parameters) for level in found] == [False, False, True, True]
    data = {"in_channels": 1, "size": [16, 16], "classes": list("0123456789")}
    Classifier(None, data, {"freeze": 2}, model=model).train()
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    assert [norm.training for norm in norms] == [False, False, True, True]
    before = norms[0].running_mean.clone()
    model(torch.randn(4, 1, 16, 16)).sum().backward()
    assert torch.equal(norms[0].running_mean, before) and norms[3].running_mean.any()
    assert model.classifier.weight.grad.any() and next(model.parameters()).grad is None


def test_frozen_normalisation_is_frozen_everywhere_and_only_it(model):
    recipe = Recipe(freeze_norm=True)
    found = plan(model, recipe, EXAMPLE)
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    assert set(frozen_norms(found, recipe)) == set(norms)
    frozen = {p for p in model.parameters() if not p.requires_grad}
    assert frozen == {p for norm in norms for p in norm.parameters()}


def test_nothing_left_to_train_is_one_line(model):
    with pytest.raises(ValueError, match=r"fit\.freeze=4 leaves nothing to train: the network has 4 levels"):
        plan(model, Recipe(freeze=4), EXAMPLE)


def test_alike_unless_asked():
    assert is_uniform(Recipe())
    for option in ({"head_rate": 2.0}, {"layer_decay": 0.9}, {"freeze": 1}, {"freeze_norm": True}):
        assert not is_uniform(Recipe(**option))
