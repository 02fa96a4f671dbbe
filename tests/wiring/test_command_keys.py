"""Flags and keys of the commands do what their sentences say: train, launch, log, probe, compare, choose."""

import json
import re
from functools import partial
from pathlib import Path

import pytest
import torch
import yaml
from lightning.pytorch.loggers import Logger
from proofs import elsewhere, proves
from shelf import Shelf
from short_runs import STILL, results_of
from short_studies import Bench, shared_jobs_of
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from cnnpool.choose.drive import Driver
from cnnpool.launch import run_processes
from cnnpool.launch.job import Outcome
from cnnpool.report import plots

elsewhere("""
wiring/test_training_keys.py
  the_first_loss_is_that_of_the_seeds_network_on_the_seeds_images: seed
launch/test_run_ray.py
  an_address_where_nobody_listens_is_refused: launch.ray.address
  a_worker_that_dies_is_one_failed_job_and_the_others_are_told: launch.ray.threads launch.ray.gpus
choose/test_command.py
  a_candidate_over_the_limit_is_out: choose.limit
choose/test_drive.py
  every_candidate_tries_the_same_values_on_a_seed_of_its_own: choose.tune
  the_budget_ends_runs_that_take_too_long_and_keeps_what_is_finished: choose.budget
launch/test_slurm.py
  a_job_whose_node_dies_has_failed_and_one_whose_time_is_up_saves_and_goes_on: launch.slurm.cluster
report/test_foreign.py
  decimal_commas_are_read_where_they_are_named: compare --decimal
  rows_of_a_curve_are_no_runs_without_seeds: compare --seed --runs
  the_value_of_a_run_is_the_last_the_best_or_a_mean: compare --best --last --mean-of-last
  a_margin_is_tested_from_both_sides_and_the_runs_needed_have_the_power: compare --margin
report/test_verdict.py
  consistency_and_cost_follow_accuracy_and_the_terminal_shows_the_rest_on_request: compare --all --metric
report/test_command.py
  csv_and_json_hold_the_numbers_unrounded: compare --out
  failed_and_unfinished_runs_are_listed_not_dropped: compare --status
  compare_names_the_folder_and_the_tab_and_writes_nothing_there: compare --no-board
fit/test_loggers.py
  csv_holds_every_scalar_and_changes_no_bit: log.csv
launch/test_plugins.py
  joblib_runs_trials_in_processes_for_two_objectives: objective
launch/test_compose.py
  the_configuration_is_shown_and_nothing_is_run: train --cfg --package --resolve --info
  a_sweep_of_as_many_jobs_as_it_may_have_is_composed: train --max-jobs
launch/test_cli.py
  a_sweep_goes_on_after_a_failing_job_and_says_so: train --multirun
inspection/test_examine.py
  a_run_is_measured_as_its_model_in_memory: probe MODEL --samples --probes --set --out
  photographs_of_different_sizes_are_brought_to_the_size: probe --data --root --size
  a_checkpoint_gives_a_users_model_its_weights: probe --checkpoint
  a_swapped_model_is_the_one_swapped_by_hand_and_stands_beside_the_first: probe --swap --swap-set
  numbers_of_untrained_weights_are_marked_each: probe --all
  a_timm_model_is_measured_with_strided_convolutions_made_pooling: probe --where
  the_data_that_a_run_names_are_fetched_only_where_that_is_asked_for: probe --download
  published_weights_of_a_file_answer_as_built_and_swapped: probe --weights
""")
ONE = [*STILL, "fit.max_steps=1"]


# Train: the folder, the configuration, the jobs.


@proves("out", "hydra.run.dir", "experiment", "train --config-dir", "train --config-name")
def test_a_run_begins_with_the_files_and_ends_in_the_folder_that_were_named(command, in_a_folder):
    mine = in_a_folder / "mine"
    (mine / "experiment").mkdir(parents=True)
    (mine / "start.yaml").write_text("defaults: [train, _self_]\nseed: 7\n")
    (mine / "experiment" / "paper.yaml").write_text("# @package _global_\nmodel: {width: 3}\n")
    words = [word for word in ONE if not word.startswith("model.width")]
    own = ["--config-dir", "mine", "--config-name", "start", "experiment=paper", "out=elsewhere"]
    assert command("train", *words, *own) == 0
    (folder,) = (path.parent for path in in_a_folder.rglob("results.json"))
    place = folder.relative_to(in_a_folder).parts
    assert place[:4] == ("elsewhere", "paper", "digits", "convnet") and place[-1] == "seed7"
    found = results_of(folder)
    assert (found["seed"], found["model"]["width"]) == (7, 3)
    kept, asked = (yaml.safe_load((folder / f".hydra/{x}.yaml").read_text()) for x in ("config", "overrides"))
    assert (kept["seed"], kept["model"]["width"]) == (7, 3) and {"experiment=paper", ONE[-1]} <= {*asked}
    assert command("train", *words, "model.width=2", "hydra.run.dir=here/it/is") == 0
    found = results_of(in_a_folder / "here" / "it" / "is")
    assert (found["seed"], found["model"]["width"]) == (0, 2)


# Launch.


@proves("launch.processes.jobs")
def test_processes_run_so_many_jobs_at_once(command, monkeypatch):
    running, most, threads = [], [], []

    class Worker:
        reports = ()

        def __init__(self, job, context, each, output):
            self.job, self.polls = job, 0
            running.append(self)
            threads.append(each)

        def poll(self):
            most.append(len(running))
            self.polls += 1
            if self.polls < 3:
                return None
            running.remove(self)
            return Outcome(self.job.name, "done", "", 0, self.job.folder / "train.log")

        def kill(self):
            """Nothing is left of it."""

    monkeypatch.setattr(run_processes, "Worker", Worker)
    monkeypatch.setattr(run_processes, "POLL_S", 0.001)
    for jobs in (1, 2):
        most.clear()
        sweep = ["-m", "launch=processes", f"launch.jobs={jobs}", "launch.threads=3", "seed=range(5)"]
        assert command("train", *ONE, *sweep) == 0
        assert max(most) == jobs
    assert set(threads) == {3} and len(threads) == 10


@proves("launch.processes.threads")
def test_a_process_trains_with_so_many_threads(command, in_a_folder):
    before = torch.get_num_threads()
    assert command("train", *ONE, "launch=processes", "launch.threads=3", "hydra.run.dir=run") == 0
    assert results_of(in_a_folder / "run")["environment"]["threads"] == 3
    assert torch.get_num_threads() == before != 3


@proves(*(f"launch.slurm.{key}" for key in ("partition", "account", "qos", "constraint")))
@proves(*(f"launch.slurm.{key}" for key in ("jobs", "threads", "timeout_min", "mem_gb", "gpus", "sbatch")))
def test_sbatch_gets_what_was_asked_for_and_its_refusal_is_a_line(command, in_a_folder, capfd, monkeypatch):
    pytest.importorskip("submitit", reason="needs pip install 'cnnpool[slurm]'")
    (in_a_folder / "bin").mkdir()
    refusal = "echo 'sbatch: error: invalid partition' >&2; exit 1"
    for name, body in (("sbatch", f'cp "$1" {in_a_folder}/script; {refusal}'), ("srun", "exit 0")):
        (in_a_folder / "bin" / name).write_text(f"#!/bin/sh\n{body}\n")
        (in_a_folder / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{in_a_folder / 'bin'}:/usr/bin:/bin")

    def script(*options):
        assert command("train", "-m", "launch=slurm", "seed=0,1,2", *ONE, *options) == 2
        err = capfd.readouterr().err
        assert err == "error: launch=slurm: the queue refuses: sbatch: error: invalid partition\n"
        lines = (in_a_folder / "script").read_text().splitlines()
        return {line.removeprefix("#SBATCH --") for line in lines if line.startswith("#SBATCH --")}

    asked = {
        "partition=p": "partition=p", "account=a": "account=a", "qos=q": "qos=q",
        "constraint=c": "constraint=c", "jobs=2": "array=0-2%2", "threads=5": "cpus-per-task=5",
        "timeout_min=9": "time=9", "mem_gb=3": "mem=3GB", "gpus=2": "gpus-per-node=2",
        "sbatch={gres: gpu:1}": "gres=gpu:1",
    }  # fmt: skip
    found, usual = script(*(f"launch.{key}" for key in asked)), script()
    assert set(asked.values()) <= found and not set(asked.values()) & usual
    assert not any(re.match("partition|account|qos|constraint", line) for line in usual)


# Logs.


class Service(Logger):
    """Stands for Lightning's logger of a service."""

    run_id = "r1"
    opened = ended = ()
    unreachable = False

    def __init__(self, *args, **options):
        super().__init__()
        self.args, self.options, self.tags = args, options, set()
        type(self).opened += (self,)

    name = version = ""

    @property
    def experiment(self):
        if self.unreachable:
            raise OSError("no route to host")
        return self

    def finish(self, exit_code):
        type(self).ended += (exit_code,)

    def log_hyperparams(self, params):
        """Not looked at."""

    def log_metrics(self, metrics, step=None):
        self.tags |= metrics.keys()


@proves("log.wandb.project", "log.mlflow.experiment")
@pytest.mark.parametrize(("name", "key"), [("wandb", "project"), ("mlflow", "experiment")])
def test_runs_belong_to_the_project_or_experiment_of_a_service(name, key, command, capfd, monkeypatch):
    monkeypatch.setattr("cnnpool.recipe.find_spec", lambda package: True)
    for variable, value in (("WANDB_MODE", "offline"), ("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db")):
        monkeypatch.setenv(variable, value)
    service = type(name, (Service,), {})
    monkeypatch.setattr(
        f"cnnpool.fit.loggers.{'WandbLogger' if name == 'wandb' else 'MLFlowLogger'}", service
    )
    assert command("train", *ONE, f"log={name}", f"log.{key}=mine", "hydra.run.dir=run") == 0
    (opened,) = service.opened
    assert "mine" in (opened.options.get(key), *opened.args[:1]) and "train/loss" in opened.tags
    assert json.loads(Path("run/logged.json").read_text()) == {name: opened.options.get("id", "r1")}
    if name == "wandb":
        assert service.ended == (0,)
        service.unreachable = True
        assert command("train", *ONE, "log=wandb", "hydra.run.dir=other") == 2
        assert "log=wandb cannot be opened: no route to host" in capfd.readouterr().err


@proves("log.wandb.entity", "log.wandb.tags", "log.wandb.notes", "log.mlflow.tags", "log.mlflow.notes")
def test_several_logs_get_a_run_and_each_takes_its_own_options(command, monkeypatch):
    monkeypatch.setattr("cnnpool.recipe.find_spec", lambda package: True)
    for variable, value in (("WANDB_MODE", "offline"), ("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db")):
        monkeypatch.setenv(variable, value)
    wandb, mlflow = type("wandb", (Service,), {}), type("mlflow", (Service,), {})
    monkeypatch.setattr("cnnpool.fit.loggers.WandbLogger", wandb)
    monkeypatch.setattr("cnnpool.fit.loggers.MLFlowLogger", mlflow)
    own = ("log.entity=team", "log.tags=[pools,digits]", "log.notes='a first try'", "log.experiment=mine")
    assert command("train", *ONE, "log=[tensorboard,wandb,mlflow,csv]", *own, "hydra.run.dir=run") == 0
    ((first,), (second,)) = wandb.opened, mlflow.opened
    given = [first.options[key] for key in ("entity", "tags", "notes", "project")]
    assert given == ["team", ["pools", "digits"], "a first try", "cnnpool"] and second.args[0] == "mine"
    noted = {"pools": "true", "digits": "true", "mlflow.note.content": "a first try"}
    assert second.options["tags"] == noted
    assert "train/loss" in first.tags & second.tags and Path("run/csv/metrics.csv").is_file()
    assert json.loads(Path("run/logged.json").read_text()).keys() == {"wandb", "mlflow", "csv"}
    plugin = EventAccumulator("run").Reload().PluginTagToContent("hparams")
    row = HParamsPluginData.FromString(plugin["_hparams_/session_start_info"]).session_start_info.hparams
    assert row["tags"].string_value == "pools, digits" and row["fit.lr"].number_value > 0


@proves("overwrite")
def test_a_finished_run_is_trained_anew_where_asked(command, in_a_folder, capfd):
    words = [word for word in ONE if not word.startswith("hydra.")]
    assert command("train", *words, "hydra.run.dir=run", "fit.epochs=2") == 0
    (in_a_folder / "run" / "notes.txt").write_text("mine")
    before = Path("run/metrics.jsonl").read_text().count("\n")
    assert command("train", *words, "hydra.run.dir=run", "fit.epochs=3") == 2
    said = "so that more are another run (not with fit.schedule=constant fit.warmup=0): train anew by "
    assert f"{said}overwrite=true" in capfd.readouterr().err
    assert command("train", *words, "hydra.run.dir=run", "overwrite=true", "fit.lr=0.5", "fit.epochs=2") == 0
    assert results_of(in_a_folder / "run")["fit"]["lr"] == 0.5
    assert Path("run/metrics.jsonl").read_text().count("\n") == before
    assert len(list(Path("run").glob("events.*"))) == 1 and Path("run/notes.txt").is_file()


@proves("trainer.fast_dev_run", "trainer.accelerator")
def test_a_fast_run_tries_a_batch_and_writes_nothing_and_a_missing_accelerator_is_named(
    command, in_a_folder, capfd
):
    words = [word for word in ONE if not word.startswith("hydra.")]
    assert command("train", *words, "+trainer.fast_dev_run=true", "trainer.accelerator=cpu") == 0
    out, err = capfd.readouterr()
    assert "training, validation and test work; nothing was written" in out and "error" not in err
    assert not list(in_a_folder.iterdir())
    assert command("train", *words, "trainer.accelerator=mps", "hydra.run.dir=run") == 2
    assert "trainer.accelerator=mps: Lightning's Trainer refuses this" in capfd.readouterr().err


# Probe.


@proves("probe --seed", "probe --device")
def test_a_probe_draws_weights_by_its_seed_and_computes_on_its_device(
    command, in_a_folder, monkeypatch, capfd
):
    (in_a_folder / "drawn_network.py").write_text(
        "from torch import nn\n\n\ndef build():\n"
        "    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10)\n"
        "    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.MaxPool2d(2), *head)\n"
    )
    monkeypatch.syspath_prepend(in_a_folder)
    words = ["probe", "drawn_network:build", "--samples", "8", "--probes", "aliasing", "--out", "out"]

    def found(*more):
        assert command(*words, *more) == 0
        return results_of(in_a_folder / "out")

    losses = [found("--seed", seed)["test"]["loss"] for seed in "112"]
    assert losses[0] == losses[1] != losses[2]
    if torch.cuda.is_available():
        here, there = (found("--device", name)["environment"]["device"] for name in ("cpu", "cuda"))
        assert here != there == torch.cuda.get_device_name()
    capfd.readouterr()
    assert command(*words, "--device", "cuda:99") == 2
    assert "cuda:99" in capfd.readouterr().err


# Compare.


@pytest.fixture
def compared(command, in_a_folder, capfd, monkeypatch):
    """A function that compares the runs of a shelf: the output."""
    monkeypatch.setattr(plots, "draw", lambda comparison: iter(()))
    monkeypatch.setenv("COLUMNS", "200")

    def compare(*words, status=0):
        capfd.readouterr()
        assert command("compare", "outputs", *words) == status
        said = capfd.readouterr()
        return said.err if status else said.out

    return compare


@pytest.fixture
def shelf(in_a_folder):
    """Max and avg of three seeds, avg better; a wide max."""
    shelf = Shelf(in_a_folder / "outputs").sweep(max=[0.90, 0.91, 0.92], avg=[0.95, 0.96, 0.97])
    wide = {"model": {"name": "convnet", "width": 48}}
    for seed in range(3):
        shelf.put(f"wide/seed{seed}", seed=seed, accuracy=0.8 + seed / 100, **wide)
    return shelf


def lines_of(table):
    """First word of every line of the table -> its line."""
    rows = next(part for part in table.split("\n\n") if part.startswith("choice")).splitlines()
    return {line.split("  ")[0].strip(): line for line in rows if "%" not in line.split("  ")[0]}


@proves("compare RUNS", "compare --where", "compare --baseline")
def test_runs_are_those_that_satisfy_where_against_the_baseline(shelf, compared):
    found = lines_of(compared("--where", "model.width=24"))
    assert "91.00" in found["max"] and "baseline" in found["max"] and "96.00" in found["avg"]
    other = lines_of(compared("--where", "model.width=24", "--baseline", "avg"))
    assert "baseline" in other["avg"] and "baseline" not in other["max"]
    alone = lines_of(compared("--where", "model.width=24", "--where", "pool=max"))
    assert "max" in alone and "avg" not in alone


@proves("compare --by", "compare --allow")
def test_choices_are_told_apart_by_keys_or_mixed_knowingly(shelf, compared):
    found = compared("--by", "pool,model.width")
    assert "max / model.width=48" in found and "max / model.width=24" in found
    for seed in range(3):
        (shelf.root / "wide" / f"seed{seed}" / "results.json").unlink()
        wide = {"model": {"name": "convnet", "width": 48}}
        shelf.put(f"other/seed{seed}", seed=seed + 3, accuracy=0.8, **wide)
    assert "they differ in model.width" in compared("--by", "pool", status=2)
    mixed = lines_of(compared("--allow", "model.width", "--by", "pool"))
    # Mean of .90, .91, .92 and three times .80.
    assert "85.50" in mixed["max"]


# Choose.


@pytest.fixture
def chosen(command, monkeypatch, capfd):
    """A function that makes a study of runs that cost no training: its output."""
    monkeypatch.setattr("cnnpool.choose.candidates.jobs_of", shared_jobs_of)

    def choose(runs, *words):
        monkeypatch.setattr("cnnpool.choose.command.Driver", partial(Driver, run=runs))
        capfd.readouterr()
        assert command("choose", "data=digits", *words) == 0
        return capfd.readouterr().out

    return choose


def level(**levels):
    """The accuracy of each pool, every seed a little different."""
    return lambda pool, seed, settings: levels.get(pool, 0.9) + 1e-4 * ((7 * seed + len(pool)) % 5)


def recommended(said):
    return re.search(r"Recommended: ([^\s.]+)", said)[1]


@proves("choose.pools", "choose.margin", "choose.cost", "choose.metric", "choose.out")
def test_the_cheapest_that_loses_less_of_the_metric_than_the_margin_is_recommended(chosen, in_a_folder):
    seen = set()

    def accuracy(pool, seed, settings):
        seen.add((pool, settings["pool"].get("kernel_size")))
        return level(subsample=0.91)(pool, seed, settings)

    costs = {"max": {"wall_s": 2.0, "parameters": 100}, "subsample": {"wall_s": 1.0, "parameters": 200}}
    usual = ("choose.pools=max+kernel_size=3,subsample", "choose.cost=parameters", "choose.margin=0.05",
             "choose.rounds=6")  # fmt: skip
    for number, (more, best) in enumerate(
        {
            (): "max+kernel_size=3",
            ("choose.cost=time",): "subsample",
            ("choose.margin=0",): "subsample",
            ("choose.margin=0", "choose.metric=cost.parameters"): "max+kernel_size=3",
        }.items()
    ):
        out = f"choose.out=study{number}"
        assert recommended(chosen(Bench(accuracy, costs=costs), *usual, *more, out)) == best
        assert (in_a_folder / f"study{number}" / "choose.md").exists()
    assert seen == {("max", 3), ("subsample", None)}


@proves("choose.rounds", "choose --config-dir", "choose --config-name")
def test_a_study_begins_with_the_files_named_and_has_at_most_so_many_rounds(chosen, in_a_folder):
    (in_a_folder / "mine").mkdir()
    (in_a_folder / "mine" / "start.yaml").write_text("defaults: [train, _self_]\nmodel: {width: 3}\n")
    widths = set()

    def accuracy(pool, seed, settings):
        widths.add(settings["model"]["width"])
        return 0.9 + 0.01 * ((3 * seed + len(pool)) % 4)

    runs = Bench(accuracy)
    own = ["--config-dir", "mine", "--config-name", "start", "choose.rounds=4"]
    chosen(runs, *own, "choose.pools=max,strided", "choose.margin=0")
    assert sorted(runs.ran) == [(pool, seed) for pool in ("max", "strided") for seed in range(4)]
    (report,) = (in_a_folder / "outputs" / "choose" / "digits" / "convnet").rglob("choose.md")
    assert widths == {3} and "max" in report.read_text()
