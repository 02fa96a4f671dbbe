"""Jobs composed once are those that Hydra composes by itself."""

import contextlib

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.hydra_config import HydraConfig
from omegaconf import OmegaConf

from cnnpool.launch import compose as composing

OPEN = "# @package _global_\ndefaults: [{override /pool: '???'}]\n"
LINES = [
    ["pool=avg", "fit.lr=0.1"],
    ["experiment=mnist_fast"],
    ["pool=avg", "hydra.mode=RUN"],
    ["hydra.mode=MULTIRUN", "pool=max,avg"],
    ["-m", "pool=max"],
    ["-m", "pool=max,avg", "seed=0,1"],
    ["-m", "pool=max,max"],
    ["-m", "seed=0,1,0,0", "hydra.sweep.subdir=${hydra.job.num}"],
    ["--config-dir=more", "-m", "experiment=open", "pool=max,avg"],
    ["--config-dir=more", "experiment=open"],
    ["pool=max,avg"],
    ["seed=range(0,2)"],
    ["-m", "hydra.job.name=a,b"],
    ["nokey=1"],
    ["pool=nope"],
]


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    (tmp_path / "more" / "experiment").mkdir(parents=True)
    (tmp_path / "more" / "experiment" / "open.yaml").write_text(OPEN)
    monkeypatch.chdir(tmp_path)


def composed(monkeypatch, arguments):
    """What Hydra hands over for each job, its own part included, and what is made of that; or the mistake."""
    handed, task = [], composing.task

    def noting(config):
        node = OmegaConf.to_container(HydraConfig.instance().cfg, resolve=False)
        handed.append((OmegaConf.to_container(config, resolve=False), node))
        task(config)

    with monkeypatch.context() as patch:
        patch.setattr(composing, "task", noting)
        try:
            return handed, composing.compose(arguments)
        except ValueError as mistake:
            return handed, str(mistake)


@pytest.mark.parametrize("arguments", LINES, ids=" ".join)
def test_what_is_composed_once_is_what_hydra_composes(arguments, elsewhere, monkeypatch):
    ours = composed(monkeypatch, arguments)
    with monkeypatch.context() as patch:
        patch.setattr(composing, "each_once", contextlib.nullcontext)
        assert ours == composed(monkeypatch, arguments)


@pytest.mark.parametrize(("arguments", "times"), [(["pool=avg"], 1), (["-m", "pool=max", "seed=2,0,1"], 4)])
def test_nothing_is_composed_twice(arguments, times, elsewhere, monkeypatch):
    lines, whole = [], ConfigLoaderImpl.load_configuration

    def load(loader, config_name, overrides, *rest, **options):
        lines.append(list(overrides))
        return whole(loader, config_name, overrides, *rest, **options)

    monkeypatch.setattr(ConfigLoaderImpl, "load_configuration", load)
    composing.compose(arguments)
    assert len(lines) == times
    assert ConfigLoaderImpl.load_configuration is load
