"""Small runs on the embedded digits, and what of two runs must be equal."""

import json
import re
from dataclasses import asdict
from types import SimpleNamespace

import pytest
import torch

import cnnpool
from cnnpool.recipe import Recipe, TensorBoard
from cnnpool.training import prepare, train

PROBES = {
    "gradient": {"samples": 16},
    "invariance": {"samples": 32, "stage_samples": 8, "max_shift_px": 2, "worst_px": 0},
    "aliasing": {"samples": 4},
}
TENSORBOARD = TensorBoard()
TIMES = re.compile(r"^cost(/|$)|_s$|^(finished|content_sha256)$")


COST = {"cost": {"samples": 2, "timed_samples": 2, "repeats": 1}}


def settings_of(
    *,
    seed=0,
    probes=PROBES,
    operator="max",
    batch_size=64,
    limit=256,
    images=None,
    model=None,
    readout="gap",
    trainer=None,
    callbacks=None,
    **options,
):
    """(settings, name) of a short run."""
    fit = {"epochs": 2, "pictures": False, "progress": False, "log_every_steps": 2} | options
    model = model or {"name": "convnet", "width": 4, "dropout": 0.1}
    source = {"name": "digits", "limit": limit, "batch_size": batch_size, "shift": 1} | (images or {})
    settings = {
        "seed": seed, "data": source, "model": model, "pool": {"name": operator}, "stage": {},
        "readout": {"name": readout}, "probe": probes, "fit": asdict(Recipe(**fit)), "trainer": trainer or {},
        "callback": callbacks or {}
    }  # fmt: skip
    name = f"{source['name']}/{model['name']}/{operator}/seed{seed}"
    return settings, name


def run(out, *, log=(TENSORBOARD,), **options):
    """(results, network) of a run in ``out``: the network is that of its last checkpoint."""
    settings, name = settings_of(**options)
    results = train(settings, out, name, [], log)
    return results, cnnpool.load(out).model.train()


def prepared(out, **options):
    """The ``Run`` of the same options, before its first step."""
    settings, name = settings_of(**options)
    return prepare(settings, out, name, [], None)


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
        run=run, prepared=prepared, same=same, metrics=metrics, results=results, probes=PROBES | COST
    )
