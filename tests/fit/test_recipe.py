"""Rates by depth, frozen levels, frozen normalisation."""

import pickle

import pytest
import torch

from cnnpool.fit.optimizers import levels, plan
from cnnpool.model import build
from cnnpool.pool import build as build_pool
from cnnpool.readout import build as build_readout
from cnnpool.recipe import Recipe


@pytest.fixture(params=["gap", "attention"])
def model(request):
    torch.manual_seed(0)
    return build(
        "convnet", 1, (16, 16), 10, width=2,
        pool=lambda stage, channels: build_pool("strided", channels),
        readout=lambda channels, size: build_readout(request.param, channels, size),
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
    assert pickle.dumps(model), "no hook is left on it"


def test_a_stage_that_makes_no_smaller_map_begins_no_level(model):
    model.stages["s2"].register_forward_hook(lambda stage, given, made: given[0])
    assert len(levels(model, EXAMPLE)) == 3


def test_so_many_first_levels_are_frozen_and_the_others_learn(model):
    for freeze in range(4):
        learns = [bool(level.parameters) for level in plan(model, Recipe(freeze=freeze), EXAMPLE)]
        assert learns == [False] * freeze + [True] * (4 - freeze)


def test_nothing_left_to_train_is_one_line(model):
    with pytest.raises(ValueError, match=r"fit\.freeze=4 leaves nothing to train: the network has 4 levels"):
        plan(model, Recipe(freeze=4), EXAMPLE)


@pytest.mark.parametrize(
    ("total", "interval"), [(1, 1), (19, 1), (45, 2), (400, 20), (1000, 50), (10**6, 50)]
)
def test_a_short_run_writes_its_loss_at_least_twenty_times_or_at_every_step(total, interval):
    assert Recipe().log_interval(total) == interval
    assert total // interval >= min(total, 20)
    assert Recipe(log_every_steps=7).log_interval(total) == 7
