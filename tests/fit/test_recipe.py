import math
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from cnnpool import registry
from cnnpool.fit import optimizers
from cnnpool.recipe import Recipe

CONF = Path(__file__).parents[2] / "conf" / "fit"


def test_the_yaml_holds_every_option_with_its_default():
    content = OmegaConf.to_container(OmegaConf.load(CONF / "default.yaml"))
    assert content == {key: p.default for key, p in registry.options_of(Recipe).items()}


@pytest.mark.parametrize(
    ("total", "interval"), [(1, 1), (19, 1), (45, 2), (400, 20), (1000, 50), (10**6, 50)]
)
def test_a_short_run_writes_its_loss_at_least_twenty_times_or_at_every_step(total, interval):
    assert Recipe().log_interval(total) == interval
    assert total // interval >= min(total, 20)
    assert Recipe(log_every_steps=7).log_interval(total) == 7


def test_one_cycle_rises_and_falls_linearly():
    recipe = Recipe(lr=1.0, warmup=0.2, schedule="one_cycle")
    rates = [recipe.learning_rate(step, 10) for step in range(10)]
    rise = [1 / 3, 2 / 3]
    fall = [1 - n / 8 for n in range(8)]
    assert rates == pytest.approx(rise + fall)


def test_cosine_falls_by_half_a_wave():
    recipe = Recipe(lr=2.0, warmup=0.0, schedule="cosine")
    rates = [recipe.learning_rate(step, 4) for step in range(4)]
    assert rates == pytest.approx([1 + math.cos(math.pi * n / 4) for n in range(4)])


def test_constant_stays_after_its_warmup():
    recipe = Recipe(lr=3.0, warmup=0.5, schedule="constant")
    assert [recipe.learning_rate(step, 4) for step in range(4)] == [1.0, 2.0, 3.0, 3.0]
    assert Recipe(lr=3.0, warmup=0.0, schedule="constant").learning_rate(0, 4) == 3.0


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_weight_decay_is_for_weights_of_two_axes(optimizer):
    layer = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2))
    built = optimizers.build(Recipe(optimizer=optimizer, weight_decay=0.1), layer.parameters())
    decayed, free = built.param_groups
    assert [p.ndim for p in decayed["params"]] == [4] and decayed["weight_decay"] == 0.1
    assert {p.ndim for p in free["params"]} == {1} and free["weight_decay"] == 0.0
