"""Options of the probes do what their sentences say, shown by what a training measures."""

import json
import time

import pytest
import torch
from proofs import proves
from short_runs import records, results_of
from torch import nn
from torch.nn import functional as F

import cnnpool
from cnnpool import cli, probe
from cnnpool.fit.results import sample

ASKED = {
    "gradient": {"samples": 7, "epsilon": 0.2},
    "invariance": {
        "presets": ["zhang_cifar", "aps_cifar", "zhang_imagenet"], "samples": 6, "shift_samples": 9,
        "map_samples": 8, "stage_samples": 4, "max_shift_px": 2, "worst_px": 2, "seed": 3,
    },
    "all_shifts": {"samples": 3},
    "diagonal": {"samples": 6, "steps": 3},
    "adversarial": {"samples": 30, "max_shift_px": 2, "per_px": 3},
    "equivariance": {"samples": 6},
    "heat_map": {"samples": 5, "radius_px": 1},
    "receptive_field": {"samples": 4},
    "lie": {"samples": 6},
    "aliasing": {"samples": 5},
    "corruptions": {
        "samples": 90, "names": ["impulse_noise", "contrast"], "severities": [3, 5], "seed": 4,
    },
    "cost": {"samples": 6, "timed_samples": 5, "repeats": 2},
}  # fmt: skip
"""What the training is told."""
SHORT = ASKED["invariance"] | {"presets": ["aps_cifar"], "max_shift_px": 1, "worst_px": 1}
PARTS = {
    "samples": ("consistency", "consistency_distinct", "consistency_given_correct", "presets"),
    "shift_samples": ("worst_shift_accuracy", "mean_shift_accuracy", "accuracy_by_shift"),
    "map_samples": ("accuracy_over_shifts",),
    "stage_samples": ("stages",),
}
"""Results of the probe of invariance, by the option that counts their images."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A training of three epochs with these options, each probe read after every second: its folder."""
    folder = tmp_path_factory.mktemp("measured")
    options = {name: {**own, "every_epochs": 2} for name, own in ASKED.items()}
    words = [
        f"++probe.{name}.{key}={json.dumps(value).replace(' ', '').replace(chr(34), '')}"
        for name, own in options.items()
        for key, value in own.items()
    ]
    quick = ["data=digits", "data.size=12", "model.width=4", "readout=gap", "fit.precision=32-true"]
    quick += ["fit.pictures=false"]
    quick += ["fit.progress=false", "fit.epochs=3", "probe=full", f"hydra.run.dir={folder}"]
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", *quick, *words])
    assert not stop.value.code
    return folder


@pytest.fixture(scope="module")
def network(run):
    return cnnpool.load(run).model


@pytest.fixture(scope="module")
def batch():
    """The images that a training measures at its end."""
    dataset = cnnpool.datamodule("digits", size=12).dataset
    return sample(dataset, dataset.test)


@pytest.fixture
def measured(network, batch):
    """A function of a probe's name and options: its result, on the first ``most`` images."""

    def measure(name, most=None, **options):
        options = {key: tuple(v) if isinstance(v, list) else v for key, v in options.items()}
        images = batch.first(most) if most else batch
        return probe.build(name, **options).measure(network, network.stages, *images)

    return measure


def leaves(node, path=""):
    """Every number and text of a result by its path."""
    if isinstance(node, dict | list):
        pairs = node.items() if isinstance(node, dict) else enumerate(node)
        return {key: value for name, one in pairs for key, value in leaves(one, f"{path}/{name}").items()}
    return {path: node}


def assert_same(one, other):
    one, other = leaves(one), leaves(other)
    assert one.keys() == other.keys()
    for path, value in one.items():
        same = value == other[path] if isinstance(value, str) or value is None else None
        assert same or value == pytest.approx(other[path], rel=1e-3, abs=1e-5), path


def other(value):
    """Another value of an option, which gives another result; of cost only times would differ."""
    if isinstance(value, list):
        return value[1:2]
    return value / 2 if isinstance(value, float) else value - 1 or 2


# Their own meaning is that of tests/probe.
KEYS = {
    "invariance": ("presets", "max_shift_px", "worst_px", "seed"),
    "adversarial": ("max_shift_px", "per_px"), "corruptions": ("samples", "names", "severities", "seed"),
    "all_shifts": ("samples",), "diagonal": ("steps",), "heat_map": ("radius_px",)
}  # fmt: skip


@proves(*(f"probe.{name}.{key}" for name, keys in KEYS.items() for key in keys))
@pytest.mark.parametrize("name", [name for name in ASKED if name != "cost"])
def test_a_training_measures_with_the_options_that_it_was_given(name, run, measured):
    section = results_of(run)[probe.PROBES[name].section]
    assert_same(section, measured(name, **ASKED[name]))
    for key, value in ASKED[name].items():
        told = {f"/{key}", "/samples"}
        found, changed = leaves(section), leaves(measured(name, **ASKED[name] | {key: other(value)}))
        assert {p for p in found if p not in told and found[p] != changed.get(p)} or len(found) != len(
            changed
        )


FIRST = sorted(ASKED.keys() - {"invariance", "cost", "corruptions", "all_shifts"})


@pytest.mark.parametrize("name", FIRST)
@proves(*(f"probe.{name}.samples" for name in FIRST))
def test_a_probe_looks_at_the_first_samples_images(name, measured):
    options = ASKED[name] | {"samples": 10}
    assert_same(measured(name, **options), measured(name, most=10, **options | {"samples": 100}))


@proves(*(f"probe.invariance.{key}" for key in PARTS))
def test_each_part_of_invariance_looks_at_images_of_its_own_number(measured):
    usual = SHORT | dict.fromkeys(PARTS, 12)
    whole = measured("invariance", **usual)
    for key, parts in PARTS.items():
        found, few = measured("invariance", **usual | {key: 5}), measured("invariance", most=5, **usual)
        for part in (part for group in PARTS.values() for part in group):
            assert_same(found[part], (few if part in parts else whole)[part])
        assert any(found[part] != whole[part] for part in parts)
    assert "accuracy_over_shifts" not in measured("invariance", **usual | {"map_samples": 0})


@proves("probe.gradient.epsilon")
def test_epsilon_times_the_largest_gradient_bounds_what_is_small(measured, network, batch):
    images, labels, *_ = batch.first(7)
    maps = []
    hook = network.stages["s1"].register_forward_pre_hook(lambda _, args: maps.append(args[0]))
    loss = F.cross_entropy(network.eval()(images), labels)
    hook.remove()
    gradient = torch.autograd.grad(loss, maps[0])[0].abs().flatten(1)
    for epsilon in (0.0, 0.05, 0.5, 1.0):
        found = measured("gradient", samples=7, epsilon=epsilon)["s1"]
        small = (gradient <= epsilon * gradient.amax(1, keepdim=True)).double().mean()
        assert found["small_fraction"] == pytest.approx(float(small), rel=1e-3)
    assert found["small_fraction"] == 1.0 > found["zero_fraction"]


class Watched(nn.Module):
    """Tells the sizes of its batches, takes long once, and keeps a fixed number of bytes for backward."""

    KEPT = 240_000
    SLOW_S = 0.2

    def __init__(self, slow):
        super().__init__()
        self.pool, self.linear = nn.MaxPool2d(2), nn.Linear(6 * 6, 10)
        self.slow, self.seen = slow, []

    def forward(self, x):
        self.seen.append(len(x))
        if self.seen.count(self.slow) == 2 and len(x) == self.slow:
            time.sleep(self.SLOW_S)
        y = self.linear(self.pool(x).flatten(1))
        return y + 0 * (y.mean() * torch.ones(self.KEPT // 4)).sum()


@proves("probe.cost.samples", "probe.cost.timed_samples", "probe.cost.repeats")
def test_cost_counts_bytes_over_samples_and_the_median_time_of_repeats(batch):
    def cost(samples=8, timed=4, repeats=3):
        model = Watched(slow=timed)
        found = probe.build("cost", samples=samples, timed_samples=timed, repeats=repeats).measure(
            model, {"pool": model.pool}, *batch
        )
        return found, model.seen

    usual, seen = cost()
    assert seen == [1, 8, 4, 4, 4, 4, 4]
    # One pass that is not timed, a slow one, two fast ones: the median is fast, but alone the slow one is it.
    assert usual["forward_images_per_s"] > 2 * 4 / Watched.SLOW_S
    once, seen = cost(repeats=1)
    assert seen == [1, 8, 4, 4, 4] and once["forward_images_per_s"] <= 4 / Watched.SLOW_S
    assert cost(timed=5)[1] == [1, 8, 5, 5, 5, 5, 5]
    fewer, seen = cost(samples=2)
    assert seen == [1, 2, 4, 4, 4, 4, 4]
    # A fixed number of bytes is divided by the images.
    assert fewer["saved_bytes"] - usual["saved_bytes"] == pytest.approx(
        Watched.KEPT * (1 / 2 - 1 / 8), rel=0.01
    )


def test_a_training_times_cost_as_it_was_told(run):
    asked = results_of(run)["asked"]["probe"]["cost"]
    assert {key: asked[key] for key in ASKED["cost"]} == ASKED["cost"]


@proves(*(f"probe.{name}.every_epochs" for name in ASKED))
def test_every_probe_is_read_after_its_epochs_and_at_the_end(run):
    lines, found = records(run), {}
    steps = max(line["step"] for line in lines) // 3
    for line in lines:
        for tag in line:
            found.setdefault(tag.partition("/")[0], set()).add(line["step"] / steps)
    # By default after every epoch or at the end alone.
    assert all(found[probe.PROBES[name].section] == {2, 3} for name in ASKED)
