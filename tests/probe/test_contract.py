"""Promises of every probe: the model bit for bit as it was, JSON, options and YAML."""

import copy
import json
from pathlib import Path

import pytest
import torch
import yaml

from cnnpool import pool, registry
from cnnpool.as_found import examined
from cnnpool.probe import PROBES, Batch, build, declared
from cnnpool.probe.base import ends_of, scalars
from cnnpool.probe.consistency import PRESETS
from cnnpool.quantity import find, numbers

CONF = Path(__file__).parents[2] / "conf" / "probe"
FEW = {
    "adversarial": {"samples": 4}, "corruptions": {"samples": 4, "severities": (1, 5)},
    "cost": {"samples": 2, "timed_samples": 2, "repeats": 1}, "diagonal": {"samples": 4, "steps": 2},
    "gradient": {"samples": 4}, "heat_map": {"samples": 2, "radius_px": 1},
    "invariance": {
        "samples": 4, "shift_samples": 4, "stage_samples": 2, "max_shift_px": 1, "presets": ("distinct",)
    },
}  # fmt: skip
"""Options that make a probe quick, where it needs others than two samples."""


def few(name):
    return FEW.get(name, {"samples": 2})


def test_a_probe_is_named_by_its_section():
    assert {name: entry.section for name, entry in PROBES.items()} == {name: name for name in PROBES}


def test_black_and_white_are_normalised_as_images_are():
    assert [end.tolist() for end in ends_of((0.25,), (0.5,))] == [[-0.5], [1.5]]


def test_a_network_that_draws_leaves_the_generators_as_they_were():
    class Noisy(torch.nn.Flatten):
        def forward(self, x):
            return super().forward(x) + torch.rand(())

    before = torch.get_rng_state()
    with examined(Noisy()) as network:
        network(torch.zeros(1, 2))
    assert torch.equal(torch.get_rng_state(), before)


def test_buffers_that_are_written_in_eval_mode_are_as_before():
    class Observer(torch.nn.Flatten):
        def __init__(self):
            super().__init__()
            self.register_buffer("least", torch.zeros(0))
            self.register_buffer("calls", torch.tensor(0))
            self.register_buffer("again", self.calls)
            self.register_buffer("never", None)
            # Expanded ones cannot be written.
            self.register_buffer("sparse", torch.eye(2).to_sparse())
            self.register_buffer("repeated", torch.tensor(torch.nan).expand(3))

        def forward(self, x):
            self.again += 1
            self.calls = self.calls + 1
            self.least.resize_(x.shape[1]).copy_(x.amin((0, 2, 3)))
            return super().forward(x)

    model = Observer()
    calls, images = model.calls, torch.rand(2, 3, 2, 2)
    build("all_shifts").measure(model, {}, images, torch.tensor([0, 1]))
    assert model.calls is model.again is calls and calls == 0 and model.least.shape == (0,)


def state(model, images):
    return {
        "tensors": copy.deepcopy(model.state_dict()),
        "buffers": {name: b.clone() for name, b in model.named_buffers()},
        "modes": [m.training for m in model.modules()],
        "attributes": [{k: v for k, v in vars(m).items() if not k.startswith("_")} for m in model.modules()],
        "hooks": [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()],
        "gradients": [p.grad for p in model.parameters()],
        "needs": [p.requires_grad for p in model.parameters()], "random": torch.get_rng_state(),
        "images": images.clone(), "images_need": images.requires_grad, "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "recording": torch.is_grad_enabled()
    }  # fmt: skip


def equal(a, b):
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(equal, a, b))
    return a == b


@pytest.mark.parametrize("name", PROBES)
def test_the_model_is_bit_for_bit_as_it_was(name, net, batch):
    for operator in ("max", "lps", "stochastic"):
        cnn, (images, labels) = net(operator, size=(8, 8)), batch(4, (8, 8))
        cnn.train()
        cnn.features[0].eval()
        before = state(cnn, images)
        build(name, **few(name)).measure(cnn, cnn.stages, *Batch(images, labels, torch.tensor([-1.0])))
        after = state(cnn, images)
        assert [key for key in before if not equal(before[key], after[key])] == [], operator


SET = {
    *("samples", "shift_samples", "map_samples", "stage_samples", "seed", "steps", "shifts", "shift_px"),
    *("radius_px", "max_shift_px", "per_px", "worst_px", "low", "high", "batch", "least_size", "severities"),
}
"""Numbers of a result that say how it was measured."""


@pytest.fixture(scope="module")
def compiled(net):
    """The same network, compiled once for all probes."""
    return torch.compile(net(size=(8, 8)), backend="eager")


@pytest.mark.parametrize("name", PROBES)
def test_a_result_is_json_repeats_exactly_and_declares_its_numbers_with_their_range(
    name, net, batch, compiled
):
    cnn, (images, labels) = net(size=(8, 8)), batch(4, (8, 8))
    probe = build(name, **few(name))
    result = probe.measure(cnn, cnn.stages, images, labels)
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    stages = result if name == "gradient" else result.get("stages", {"s1": {}, "s2": {}})
    assert stages.keys() == {"s1", "s2"}
    found = {key: (find(declared([PROBES[name]]), key), value) for key, value in numbers({name: result})}
    assert {key.split(".")[-1] for key, (one, _) in found.items() if one is None} <= SET
    for key, (one, value) in found.items():
        if one is not None and value is not None:
            low, high = one.range
            assert (low is None or value >= low) and (high is None or value <= high), key
    if name != "cost":
        assert probe.measure(compiled, compiled.stages, images, labels) == result
    without = probe.measure(cnn, {}, images, labels)
    assert not (without if name == "gradient" else without.get("stages"))
    if name != "cost":
        assert (result["s1"] if name == "gradient" else result)["samples"] == few(name)["samples"]
        torch.manual_seed(7)
        assert probe.measure(cnn, cnn.stages, images, labels.to(torch.uint16)) == result
    for wrong in (labels.double(), labels == 1, labels[:-1], labels[:, None], labels.tolist()):
        with pytest.raises(ValueError, match=r"must be one class index per image, integers"):
            probe.measure(cnn, cnn.stages, images, wrong)


@pytest.mark.parametrize("name", PROBES)
def test_every_quantity_is_measured_and_defined_in_a_sentence(name, net, batch):
    cnn, options = net("strided" if name == "gradient" else "max"), {}
    images, labels = batch(8, (8, 8))
    if name == "invariance":
        images, options = torch.randn(8, 1, 32, 32), {"presets": ("distinct", "aps_cifar")}
    result = build(name, **few(name) | options).measure(cnn, cnn.stages, images, labels)
    own = PROBES[name].quantities
    missing = {one.key for one in own} - {one.key for key, _ in numbers(result) if (one := find(own, key))}
    # The other presets are declared the same way, and take a minute.
    assert all(any(f".{preset}" in key for preset in PRESETS) for key in missing), missing
    for one in own:
        assert one.title and one.definition.endswith(".") and len(one.definition) > 25, one.key
        assert one.title[0].islower() or one.title.split()[0] in {"FLOPs", "Hoyer", "Lie"}, one.title


def test_no_two_quantities_share_a_key_or_a_title():
    keys, titles = [one.key for one in declared()], [one.title for one in declared()]
    assert len(keys) == len(set(keys))
    assert len(titles) == len(set(titles)), sorted(t for t in titles if titles.count(t) > 1)


@pytest.mark.parametrize("operator", pool.OPERATORS)
def test_the_stage_probes_take_every_operator(operator, net, batch):
    cnn, (images, labels) = net(operator, size=(8, 8)), batch(4, (8, 8))
    for name in ("gradient", "invariance", "equivariance", "aliasing", "lie", "receptive_field", "cost"):
        # The answers of a network to shifted images do not depend on which operator it has.
        more = {"presets": ()} if name == "invariance" else {}
        result = build(name, **few(name) | more).measure(cnn, cnn.stages, images, labels)
        stages = result if name == "gradient" else result["stages"]
        # An operator that keeps the resolution cannot alias.
        assert stages.keys() == (set() if (name, operator) == ("aliasing", "none") else {"s1", "s2"})


def test_the_default_yaml_holds_every_option_at_its_default():
    written = yaml.safe_load((CONF / "default.yaml").read_text())
    for name, options in written.items():
        defaults = {key: option.default for key, option in registry.options_of(PROBES[name]).items()}
        assert {key: tuple(v) if isinstance(v, list) else v for key, v in options.items()} == defaults


def test_tags_are_the_documented_ones():
    before, after = {"zero_fraction": 0.9}, {"hoyer": 0.1}
    s1 = {"zero_fraction": 0.75, "samples": 8, "ties": "first", "winners": [0.5, 0.5]}
    invariance = {
        "consistency": {"distinct": 0.5}, "consistency_given_correct": None,
        "accuracy_by_shift": {"0": 0.8},
        "presets": {"distinct": {"border": "circular", "accuracy": 0.7, "low": -3, "per_image": True}},
        "accuracy_over_shifts": [[0.8]], "stages": {"s1": {"relative_change": {"1": 0.1}}}
    }  # fmt: skip
    results = {
        "gradient": {"s1": {**s1, "before_activation": before, "weights_after": after}},
        "invariance": invariance,
        "cost": {"parameters": 3, "wall_s": 1.5},
        "test": {"accuracy": 0.5},
    }
    assert scalars(declared(), results) == {
        "gradient/zero_fraction/s1": 0.75, "gradient/before_activation/zero_fraction/s1": 0.9,
        "gradient/weights_after/hoyer/s1": 0.1, "invariance/consistency/distinct": 0.5,
        "invariance/accuracy_by_shift_0px": 0.8, "invariance/presets/distinct/accuracy": 0.7,
        "invariance/relative_change_1px/s1": 0.1,
        **{"cost/parameters": 3, "cost/wall_s": 1.5, "test/accuracy": 0.5}
    }  # fmt: skip


def test_every_tag_finds_its_quantity_again():
    for one in declared():
        values = {"stage": "s1", "px": "2", "filters": "weights_own", "class": "cat"}
        key = one.filled(values | {"corruption": "jpeg", "severity": "5"})
        tag = one.tag_of(key)
        assert "<" not in tag and one.has_tag(tag)
        assert next(other for other in declared() if other.has_tag(tag)) is not None
