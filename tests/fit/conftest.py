"""Small runs on the embedded digits, and what of two runs must be equal."""

import json
import re
from types import SimpleNamespace

import pytest
import torch

from cnnpool import data, model, pool, probe, readout
from cnnpool.fit import Facts, Recipe, fit
from cnnpool.loggers import TensorBoard

FACTS = {
    "run": "digits/convnet/max/seed0",
    "choice": "digits/convnet/max",
    "pool": {"name": "max"},
    "stages": {"s1": {"name": "max"}, "s2": {"name": "max"}},
    "readout": {"name": "gap"},
    "model": {"name": "convnet"},
    "data": {"name": "digits"},
}
PROBES = {
    "gradient": {"samples": 16},
    "invariance": {"samples": 32, "stage_samples": 8, "max_shift_px": 2, "worst_px": 0},
    "aliasing": {"samples": 4},
}
TENSORBOARD = TensorBoard()
TIMES = re.compile(r"^cost(/|$)|_s$|^(finished|checksum|metrics_sha256)$")


COST = {"cost": {"samples": 2, "timed_samples": 2, "repeats": 1}}


def run(
    out,
    *,
    seed=0,
    probes=PROBES,
    operator="max",
    batch_size=64,
    limit=256,
    asked=None,
    facts=None,
    log=TENSORBOARD,
    images=None,
    network=None,
    **options,
):
    """(results, model) of a run in ``out``; ``network`` makes a model of the images' (H, W)."""
    torch.manual_seed(seed)
    dataset = data.build("digits", seed=seed, limit=limit, batch_size=batch_size, shift=1, **images or {})
    net = (network or convnet)(dataset.size, operator)
    recipe = Recipe(**{"epochs": 2, "pictures": False, "progress": False, "log_every_steps": 2} | options)
    built = {name: probe.build(name, **settings) for name, settings in probes.items()}
    facts = Facts(**FACTS | (facts or {}), asked=asked or {})
    return fit(net, dataset, built, recipe=recipe, seed=seed, out=out, facts=facts, log=log), net


def convnet(size, operator):
    """The small network of most of these tests."""
    return model.build(
        "convnet",
        1,
        size,
        10,
        pool=lambda stage, channels: pool.build(operator, channels),
        readout=lambda channels, size: readout.build("gap", channels, size),
        width=4,
        dropout=0.1,
    )


def same(a, b):
    return all(
        torch.equal(x, y) for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    )


def timeless(content):
    """``content`` without what a clock said."""
    if isinstance(content, dict):
        return {key: timeless(value) for key, value in content.items() if not TIMES.search(key)}
    return content


def metrics(out):
    """The lines of metrics.jsonl without times, in their order."""
    return [timeless(json.loads(line)) for line in (out / "metrics.jsonl").read_text().splitlines()]


def results(out):
    """results.json without times."""
    return timeless(json.loads((out / "results.json").read_text()))


@pytest.fixture(scope="session")
def runs():
    """The functions of this file: tests are no package to import them from."""
    return SimpleNamespace(
        run=run, same=same, metrics=metrics, results=results, facts=FACTS, probes=PROBES | COST
    )
