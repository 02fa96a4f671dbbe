"""Sweepers and launchers of Hydra's in front of our runs; each test needs the plugin of its name."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cnnpool.launch.compose import Request, jobs_of

SEARCH = "fit.lr=tag(log, interval(0.001, 0.1))"
QUIET = ("fit.max_steps=4", "data.val_size=100")


@pytest.fixture
def call(call, in_a_folder):
    """The command in a process of its own: Optuna 2 warns of its future at its import."""

    def run(*arguments):
        command = [sys.executable, "-m", "cnnpool", *arguments]
        done = subprocess.run(command, cwd=in_a_folder, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    run.quick = call.quick
    return run


def trials(out):
    return sorted(Path(out).rglob("results.json"))


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
    status, out, err = call("train", "-m", *plugins, *sizes, *goals, *QUIET, *call.quick)
    assert status == 0, err
    assert "Directions: ['maximize', 'minimize']" in out and len(trials("outputs")) == 2


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
