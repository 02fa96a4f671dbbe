"""Probes that take a batch in parts find what they find in the whole."""

import logging

import pytest
import torch

from cnnpool.probe import build
from cnnpool.probe.gradient import StageRouting
from cnnpool.probe.gradient_taps import stage_gradients
from cnnpool.probe.shift import mean_over
from cnnpool.quantity import numbers

PROBES = {
    "gradient": {"samples": 7},
    "invariance": {"samples": 7, "stage_samples": 7, "map_samples": 0, "max_shift_px": 1},
    "equivariance": {"samples": 7},
    "aliasing": {"samples": 7},
    "receptive_field": {"samples": 7},
}


def measured(name, net, batch, operator="max", **options):
    cnn = net(operator, **options).double()
    images, labels = batch(7)
    # The second half of the map is flat, so that windows are tied.
    images = images.double()
    images[..., 6:] = 0.5
    return build(name, **PROBES[name]).measure(cnn, cnn.stages, images, labels)


@pytest.mark.parametrize("operator", ["max", "strided"])
@pytest.mark.parametrize("name", PROBES)
def test_parts_of_a_batch_give_the_numbers_of_the_whole(name, operator, net, batch, monkeypatch):
    whole = measured(name, net, batch, operator)
    # Two images of 12 pixels at a time: seven leave a single one for the last part.
    monkeypatch.setattr("cnnpool.probe.shift.FORWARD", 300)
    monkeypatch.setattr("cnnpool.probe.shift.BACKWARD", 300)
    monkeypatch.setattr("cnnpool.probe.aliasing.ENTRIES", 1000)
    found = measured(name, net, batch, operator)
    assert found.keys() == whole.keys()
    expected = dict(numbers(whole))
    assert len(expected) >= 4
    assert dict(numbers(found)) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_winners_of_parts_are_those_of_the_whole(net, batch):
    cnn = net(ties="split")
    images, labels = batch(5)
    images[:3, ..., 6:] = 0.5
    tap = stage_gradients(cnn, cnn.stages, images, labels)["s1"]
    whole, cut = (StageRouting(cnn.stages["s1"], 1e-3) for _ in range(2))
    whole.add(tap)
    for some in (slice(0, 3), slice(3, 5)):
        cut.add(tap._replace(activation=tap.activation[some], gradient=tap.gradient[some], before=None))
    for key in ("winners", "winners_untied", "winners_tied"):
        assert cut.result()[key] == pytest.approx(whole.result()[key], rel=1e-12)
    assert cut.result()["coverage"] == whole.result()["coverage"]


def test_no_more_images_are_in_the_graph_than_the_limit_allows(net, batch, monkeypatch):
    monkeypatch.setattr("cnnpool.probe.shift.BACKWARD", 300)
    cnn, seen = net(), []
    cnn.register_forward_pre_hook(lambda _, x: seen.append(len(x[0])) if torch.is_grad_enabled() else None)
    build("gradient", samples=7).measure(cnn, cnn.stages, *batch(7))
    assert seen == [2, 2, 2, 1]


def test_the_cost_of_large_images_is_taken_over_fewer_and_says_so(net, batch, monkeypatch, caplog):
    cnn, few = net(), {"samples": 6, "timed_samples": 6, "repeats": 1}
    whole = build("cost", **few).measure(cnn, cnn.stages, *batch())
    monkeypatch.setattr("cnnpool.probe.shift.BACKWARD", 300)
    with caplog.at_level(logging.INFO):
        found = build("cost", **few).measure(cnn, cnn.stages, *batch())
    assert (found["samples"], found["timed_samples"]) == (2, 6) and "samples" not in whole
    assert "bytes over 2 of them, times over 6" in caplog.text
    assert found["saved_bytes"] == pytest.approx(whole["saved_bytes"], rel=0.05)
    monkeypatch.setattr("cnnpool.probe.shift.FORWARD", 300)
    found = build("cost", samples=1, timed_samples=6, repeats=1).measure(cnn, cnn.stages, *batch())
    assert (found["samples"], found["timed_samples"]) == (1, 2)


def test_the_mean_over_a_single_part_keeps_its_bits():
    assert mean_over([(3, {"a": 0.1})]) == {"a": 0.1}
    assert mean_over([(2, {"a": 1.0}), (1, {"a": 4.0})]) == {"a": 2.0}
