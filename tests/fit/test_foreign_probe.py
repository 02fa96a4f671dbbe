"""A probe of an installed package: its numbers come with their words, wherever numbers are shown."""

import json
import shutil
from dataclasses import replace

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from cnnpool import registry
from cnnpool.report import main as compare
from cnnpool.report import plots
from cnnpool.run_folder.results import write

MODULE = '''
from dataclasses import dataclass

import torch

from cnnpool.probe import Probe
from cnnpool.probe.base import captured, device_of, examined
from cnnpool.quantity import fraction, ratio


@dataclass(kw_only=True)
class Loudness(Probe):
    """How large outputs are. Args: samples: images. every_epochs: as ever."""

    section = "loudness"
    quantities = (
        ratio(
            "stages.<stage>.level",
            "loudness",
            "Mean output of a stage, divided by nothing.",
            better="lower",
            shown="compare",
            headline=True,
        ),
        fraction("silent", "silent images", "Images whose logits are all zero, divided by all images."),
    )

    samples: int = 16

    def read(self, model, stages, batch):
        images = batch.first(self.samples).images.to(device_of(model))
        with examined(model), captured(stages) as seen, torch.no_grad():
            silent = (model(images) == 0).all(1).double().mean().item()
        levels = {stage: {"level": output.mean().item()} for stage, output in seen.items()}
        return {"silent": silent, "samples": len(images), "stages": levels}
'''


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The package, installed as pip installs it."""
    site = tmp_path / "site-packages"
    about = site / "loudness_probe-1.0.dist-info"
    about.mkdir(parents=True)
    (site / "loudness_probe.py").write_text(MODULE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: loudness-probe\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[cnnpool.probes]\nloudness = loudness_probe:Loudness\n")
    monkeypatch.syspath_prepend(site)
    registry._foreign.cache_clear()
    yield
    registry._foreign.cache_clear()


def louder(found, seed):
    """``found`` as of another seed, with larger outputs."""
    stages = {
        name: {"level": one["level"] * (1 + seed / 10)}
        for name, one in found.measured["loudness"]["stages"].items()
    }
    measured = found.measured | {"loudness": found.measured["loudness"] | {"stages": stages}}
    return replace(found, seed=seed, run=found.run.replace("seed0", f"seed{seed}"), measured=measured)


def test_it_gets_a_tag_a_column_a_chart_and_a_verdict(installed, runs, tmp_path, capsys, monkeypatch):
    options = {"probes": {"loudness": {}}, "epochs": 1, "limit": 64, "log": ()}
    for operator in ("max", "avg"):
        out = tmp_path / "outputs" / operator / "seed0"
        found, _ = runs.run(out, operator=operator, **options)
        for seed in range(1, 6):
            other = out.with_name(f"seed{seed}")
            shutil.copytree(out, other)
            write(other, louder(found, seed))
    results = json.loads((out / "results.json").read_text())
    assert results["loudness"].keys() == {"silent", "samples", "stages"}
    assert results["quantities"]["loudness.stages.<stage>.level"]["better"] == "lower"
    events = EventAccumulator(str(out)).Reload()
    expected = {"loudness/level/s1", "loudness/silent", "a_first_look/loudness/level/s1"}
    assert expected <= set(events.Tags()["scalars"])
    described = events.SummaryMetadata("loudness/level/s1").summary_description
    assert described == "Mean output of a stage, divided by nothing."

    registry._foreign.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(plots, "draw", lambda comparison: iter(()))
        assert compare([str(tmp_path / "outputs"), "--metric", "loudness.stages.*.level"]) == 0
    # An average is never above the maximum of the same values, and here less is better.
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("avg")]
    assert [row for row in rows if row.endswith("better")]
    assert compare([str(tmp_path / "outputs"), "--all"]) == 0
    assert "loudness, mean of stages" in capsys.readouterr().out
    page = (tmp_path / "outputs" / "report" / "report.md").read_text()
    assert "loudness, mean of stages" in page and "](headlines.svg)" in page
    figure = (tmp_path / "outputs" / "report" / "headlines.svg").read_text()
    assert "stage s1" in figure and "loudness" in figure
    assert "**loudness**: Mean output of a stage, divided by nothing. Lower is better." in page


def test_a_probe_that_declares_nothing_is_refused(monkeypatch):
    class Mute:
        section = "mute"
        every_epochs = 0

        def measure(self, model, stages, images, labels, black=None):
            return {"a": 1}

    from cnnpool import probe

    monkeypatch.setitem(probe.PROBES, "mute", Mute)
    with pytest.raises(ValueError, match="mute declares no quantities"):
        probe.build("mute")
