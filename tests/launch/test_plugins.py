"""Sweepers and launchers of Hydra's in front of our runs; each test needs the plugin of its name."""

import json
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from omegaconf import OmegaConf

from cnnpool.launch import plugins, run_job
from cnnpool.launch.compose import Request, jobs_of
from cnnpool.launch.hydra_compose import opened
from cnnpool.launch.job import Outcome
from cnnpool.launch.overrides import parse
from cnnpool.run_folder.folder_lock import held

SEARCH = "fit.lr=tag(log, interval(0.001, 0.1))"
QUIET = ("fit.max_steps=4", "data.val_size=100")


# Optuna 2 warns of its future at its import.
optuna = pytest.mark.filterwarnings("ignore")


def trials(out):
    return sorted(Path(out).rglob("results.json"))


@optuna
def test_optuna_finds_the_best_of_trials_that_are_runs_and_the_same_command_reads_them(call, in_a_folder):
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper", reason="needs hydra-optuna-sweeper")
    line = ["-m", "hydra/sweeper=optuna", "hydra.sweeper.n_trials=3", SEARCH, *QUIET, *call.quick]
    status, out, err = call("train", *line)
    assert status == 0, err
    found = trials("outputs")
    assert len(found) == 3
    measured = [json.loads(path.read_text())["val"]["accuracy"] for path in found]
    # Higher is better, though nobody said so and Optuna looks for the least.
    assert f"Best value: {max(measured)}" in out
    rates = [json.loads(path.read_text())["fit"]["lr"] for path in found]
    assert len({*rates}) == 3 and all(0.001 <= rate <= 0.1 for rate in rates)
    before = [path.stat().st_mtime_ns for path in found]
    assert call("train", *line)[0] == 0
    assert [path.stat().st_mtime_ns for path in trials("outputs")] == before


@pytest.mark.slow
def test_joblib_runs_trials_in_processes_for_two_objectives(call, in_a_folder):
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper", reason="needs hydra-optuna-sweeper")
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher", reason="needs hydra-joblib-launcher")
    plugins = ["hydra/sweeper=optuna", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]
    sizes = ["hydra.sweeper.n_trials=2", "hydra.sweeper.n_jobs=2", f"hydra.sweeper.params.{SEARCH}"]
    goals = ["objective=[val/accuracy,val/loss]"]
    command = [sys.executable, "-m", "cnnpool", "train", "-m", *plugins, *sizes, *goals, *QUIET, *call.quick]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Directions: ['maximize', 'minimize']" in done.stdout and len(trials("outputs")) == 2


@optuna
def test_a_mistake_ends_the_sweep_in_a_line(call, in_a_folder):
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper", reason="needs hydra-optuna-sweeper")
    mistakes = {
        "pool.stride=choice(-1,0)": "pool.stride must be a whole number from 1 to 1,024",
        "fit.lr=interval(-2,-1)": "fit.lr must be a number above 0",
    }
    for word, said in mistakes.items():
        status, _, err = call("train", "-m", "hydra/sweeper=optuna", word, *call.quick)
        errors = [line for line in err.splitlines() if line.startswith("error: ")]
        assert status == 2 and len(errors) == 1 and errors[0].startswith(f"error: {said}"), err
    for key, said in {"val/f1": "choose from val/accuracy", "test/accuracy": "take val/accuracy"}.items():
        status, _, err = call("train", "-m", "hydra/sweeper=optuna", SEARCH, f"objective={key}", *call.quick)
        assert status == 2 and said in err, err
    assert not Path("outputs").exists() or not trials("outputs")


def test_jobs_that_somebody_else_runs_are_not_for_a_plugin(in_a_folder):
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher", reason="needs hydra-joblib-launcher")
    with pytest.raises(ValueError, match=r"^hydra/launcher=joblib is for cnnpool train -m$"):
        jobs_of(Request(["hydra/launcher=joblib", "seed=0,1"], multirun=True))
    with pytest.raises(ValueError, match="cnnpool train -m hydra/launcher=joblib"):
        jobs_of(Request(["hydra/launcher=joblib"]))


SPACE = """\
defaults: [train, {override hydra/sweeper: optuna}, _self_]
seed: 3
hydra:
  sweeper:
    DIRECTION
    params:
      pool: choice(lp,max)
      pool.p: 3
      fit.lr: tag(log, interval(0.001, 0.1))
      seed: range(0, 2000)
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("direction: minimize", []),
        ("direction: maximize", []),
        ("direction: [minimize, maximize]", []),
        ("n_trials: 2", ["hydra.sweeper.direction=maximize"]),
    ],
)
def test_a_file_gives_directions_and_the_space_of_a_search(line, found, in_a_folder):
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper", reason="needs hydra-optuna-sweeper")
    Path("mine.yaml").write_text(SPACE.replace("DIRECTION", line))
    with opened("mine", in_a_folder) as composer:
        whole = composer.sweep(parse(["hydra.sweeper.sampler.seed=1"]))
    assert plugins._directed(whole, {"val/accuracy": "higher"}) == found
    (job,) = jobs_of(Request([], True, in_a_folder, "mine", trial=("pool", "fit.lr")))
    assert job.settings["pool"]["name"] == "lp" and job.settings["pool"]["p"] == 3
    assert job.settings["seed"] == 3


def test_a_trial_waits_for_the_process_that_trains_the_same(in_a_folder, monkeypatch, capsys):
    (job,) = jobs_of(Request(["fit=smoke"]))
    done = Outcome(job.name, "done", "", 0, job.folder)
    monkeypatch.setattr(run_job, "_run", lambda job: done)
    with ExitStack() as other:
        other.enter_context(held(job.folder))
        monkeypatch.setattr(plugins, "time", SimpleNamespace(sleep=lambda seconds: other.close()))
        assert plugins._run(job) == done
    assert capsys.readouterr().err == f"{job.name}: another process trains it: waiting for that\n"


def test_every_failed_trial_is_named_and_what_is_done_is_shown(in_a_folder, monkeypatch, capsys):
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher", reason="needs hydra-joblib-launcher")
    ended = Outcome("seed0", "failed", "it diverged", 1, Path("train.log"))
    config = SimpleNamespace(overrides=SimpleNamespace(task=["fit=smoke"]))
    monkeypatch.setattr(plugins.HydraConfig, "get", lambda: config)
    monkeypatch.setattr(plugins, "_run", lambda job: ended)
    with pytest.raises(plugins.Failed, match="it diverged") as failed:
        plugins.trial(Request(multirun=True, trial=()), ["val/accuracy"], config)
    said = "error: digits/convnet/max+fit=smoke/seed0: it diverged (log: train.log)\n"
    assert capsys.readouterr().err == said
    # The launcher hands the first of them on.
    monkeypatch.setattr(plugins, "partial", lambda *arguments: Mock(side_effect=failed.value))
    for done in (False, True):
        assert plugins.run_plugins(Request(["hydra/launcher=joblib", "seed=0,1"], multirun=True)) == 1
        out, err = capsys.readouterr()
        assert out.startswith("results: outputs\n") == done and not err
        Path("outputs/a").mkdir(parents=True, exist_ok=True)
        Path("outputs/a/results.json").touch()


def test_a_plugins_own_error_is_no_mistake_in_the_command_line(capsys):
    whole = OmegaConf.create({"hydra": {"runtime": {"choices": {"hydra/launcher": "basic"}}}})
    whole.hydra.runtime.choices["hydra/sweeper"] = "optuna"
    for error, said in ((AssertionError(), "AssertionError"), (OSError("no\nwhere"), "OSError: no")):
        assert plugins._ended(Mock(side_effect=error), [], whole) == 1
        line = rf"error: hydra/sweeper=optuna failed: {said} \(python3\.\d+/unittest/mock\.py:\d+\)\n"
        assert re.fullmatch(line, capsys.readouterr().err)
