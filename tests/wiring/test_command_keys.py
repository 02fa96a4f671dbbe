"""Flags and keys of the commands do what their sentences say: train, launch, log, probe, compare, choose."""

import re
from functools import partial

import pytest
import torch
from lightning.pytorch.loggers import Logger
from PIL import Image
from proofs import ELSEWHERE, proves
from shelf import Shelf
from short_runs import STILL, results_of
from short_studies import Bench, shared_jobs_of

from cnnpool.choose.drive import Driver
from cnnpool.launch import run_processes
from cnnpool.launch.job import Outcome
from cnnpool.report import plots

ELSEWHERE |= {
    "seed": "wiring/test_training_keys.py::"
    "test_the_first_loss_is_that_of_the_seeds_network_on_the_seeds_images",
    "launch.ray.address": "launch/test_run_ray.py::test_an_address_where_nobody_listens_is_refused",
    "launch.ray.threads": "launch/test_run_ray.py::"
    "test_a_worker_that_dies_is_one_failed_job_and_the_others_are_told",
    "launch.ray.gpus": "launch/test_run_ray.py::"
    "test_a_worker_that_dies_is_one_failed_job_and_the_others_are_told",
    "choose.limit": "choose/test_command.py::test_a_candidate_over_the_limit_is_out",
    "choose.tune": "choose/test_drive.py::test_every_candidate_tries_the_same_values_on_a_seed_of_its_own",
    "choose.budget": "choose/test_drive.py::"
    "test_the_budget_ends_runs_that_take_too_long_and_keeps_what_is_finished",
    "launch.slurm.cluster": "launch/test_slurm.py::"
    "test_a_job_that_fails_elsewhere_is_one_failed_job_and_the_same_command_ends_there",
    "probe --download": "inspection/test_examine.py::"
    "test_the_data_that_a_run_names_are_fetched_only_where_that_is_asked_for",
    "probe --weights": "inspection/test_examine.py::"
    "test_published_weights_of_a_file_answer_as_built_and_swapped",
    **dict.fromkeys(
        ("compare --best", "compare --last", "compare --mean-of-last"),
        "report/test_foreign.py::test_the_value_of_a_run_is_the_last_the_best_or_a_mean",
    ),
    "compare --margin": "report/test_foreign.py::"
    "test_a_margin_is_tested_from_both_sides_and_the_runs_needed_have_the_power",
    "log.csv": "fit/test_loggers.py::test_csv_holds_every_scalar_and_changes_no_bit",
    "train --cfg": "launch/test_compose.py::test_the_configuration_is_shown_and_nothing_is_run",
    "train --package": "launch/test_compose.py::test_the_configuration_is_shown_and_nothing_is_run",
    "train --resolve": "launch/test_compose.py::test_the_configuration_is_shown_and_nothing_is_run",
    "train --info": "launch/test_compose.py::test_the_configuration_is_shown_and_nothing_is_run",
    "train --multirun": "launch/test_cli.py::test_a_sweep_goes_on_after_a_failing_job_and_says_so",
}
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
    assert command("train", *words, "model.width=2", "hydra.run.dir=here/it/is") == 0
    found = results_of(in_a_folder / "here" / "it" / "is")
    assert (found["seed"], found["model"]["width"]) == (0, 2)


@proves("train --max-jobs")
def test_a_sweep_of_more_than_max_jobs_is_refused(command, in_a_folder, capfd, monkeypatch):
    ran = []
    monkeypatch.setattr("cnnpool.launch.sweep.outcomes_of", lambda jobs: ran.extend(jobs) or iter(()))
    command("train", "-m", "--max-jobs", "3", "seed=range(3)")
    assert len(ran) == 3
    assert command("train", "-m", "--max-jobs", "2", "seed=range(3)") == 2 and len(ran) == 3
    assert "--max-jobs 3" in capfd.readouterr().err


# Launch.


@pytest.fixture
def environment_kept(monkeypatch):
    """Launchers leave to their processes how many threads they have, and what they import."""
    for name in ("OMP_NUM_THREADS", "PYTHONSAFEPATH"):
        monkeypatch.setenv(name, "1")


@pytest.mark.usefixtures("environment_kept")
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


@pytest.mark.usefixtures("environment_kept")
@proves("launch.processes.threads")
def test_a_process_trains_with_so_many_threads(command, in_a_folder):
    before = torch.get_num_threads()
    assert command("train", *ONE, "launch=processes", "launch.threads=3", "hydra.run.dir=run") == 0
    assert results_of(in_a_folder / "run")["environment"]["threads"] == 3
    assert torch.get_num_threads() == before != 3


@pytest.mark.usefixtures("environment_kept")
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
    opened = ()

    def __init__(self, *args, **options):
        super().__init__()
        self.args, self.options, self.tags = args, options, set()
        type(self).opened += (self,)

    name = version = ""
    experiment = None

    def log_hyperparams(self, params):
        """Not looked at."""

    def log_metrics(self, metrics, step=None):
        self.tags |= metrics.keys()


@proves("log.wandb.project", "log.mlflow.experiment")
@pytest.mark.parametrize(("name", "key"), [("wandb", "project"), ("mlflow", "experiment")])
def test_runs_belong_to_the_project_or_experiment_of_a_service(name, key, command, monkeypatch):
    monkeypatch.setattr("cnnpool.loggers.find_spec", lambda package: True)
    for variable, value in (("WANDB_MODE", "offline"), ("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db")):
        monkeypatch.setenv(variable, value)
    service = type(name, (Service,), {})
    monkeypatch.setattr(
        f"cnnpool.fit.loggers.{'WandbLogger' if name == 'wandb' else 'MLFlowLogger'}", service
    )
    assert command("train", *ONE, f"log={name}", f"log.{key}=mine", "hydra.run.dir=run") == 0
    (opened,) = service.opened
    assert "mine" in (opened.options.get(key), *opened.args[:1]) and "train/loss" in opened.tags


# Probe.


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run of a network for images of any size."""
    from cnnpool import cli

    folder = tmp_path_factory.mktemp("probed") / "seed0"
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", *ONE, "readout=gap", f"hydra.run.dir={folder}"])
    assert not stop.value.code
    return folder


@pytest.fixture
def probed(command, in_a_folder):
    """A function that probes quickly: the content of results.json."""

    def probe(model, *words, out="out"):
        words = ["--samples", "8", *words] if "--samples" not in words else words
        words = [*words, "--probes", "aliasing"] if "--probes" not in words else words
        assert command("probe", str(model), *words, "--out", out) == 0
        return results_of(in_a_folder / out)

    return probe


@proves("probe MODEL", "probe --samples", "probe --probes", "probe --set", "probe --out")
def test_a_run_is_probed_by_the_named_probes_on_so_many_images(run, probed):
    found = probed(run, "--samples", "6", "--probes", "aliasing,equivariance", "--set", "aliasing.samples=4")
    sections = {"aliasing", "equivariance", "gradient", "invariance", "cost"} & found.keys()
    assert sections == {"aliasing", "equivariance"} and found["test"]["samples"] == 6
    assert (found["aliasing"]["samples"], found["equivariance"]["samples"]) == (4, 6)
    assert found["examined"]["model"] == str(run)


@pytest.fixture
def drawn(in_a_folder, monkeypatch):
    """A network of random weights for images of any size, as cnnpool probe names it."""
    (in_a_folder / "drawn_network.py").write_text(
        "from torch import nn\n\n\ndef build():\n"
        "    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10)\n"
        "    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.MaxPool2d(2), *head)\n"
    )
    monkeypatch.syspath_prepend(in_a_folder)
    return "drawn_network:build"


@proves("probe --data", "probe --root", "probe --size")
def test_other_images_of_another_size_are_taken(drawn, probed, in_a_folder):
    for number in range(20):
        path = in_a_folder / "photographs" / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.effect_noise((24, 24), 50).save(path)
    usual, small = probed(drawn), probed(drawn, "--size", "20")
    assert "of digits, 3x28x28" in usual["examined"]["images"]
    assert "of digits, 3x20x20" in small["examined"]["images"] and small["aliasing"] != usual["aliasing"]
    own = ["--data", "image_folder", "--root", "photographs", "--size", "24", "--samples", "2"]
    assert "2 test images of image_folder, 3x24x24" in probed(drawn, *own)["examined"]["images"]


@proves("probe --checkpoint")
def test_weights_are_those_of_the_checkpoint(run, probed, in_a_folder):
    content = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)
    state = {key: torch.zeros_like(value) for key, value in content["state_dict"].items()}
    torch.save({"state_dict": state}, in_a_folder / "zeros.pt")
    found = probed(run, "--checkpoint", "zeros.pt")
    assert found["test"]["loss"] == pytest.approx(2.302585, rel=1e-5) != probed(run)["test"]["loss"]


@proves("probe --seed")
def test_the_seed_draws_random_weights(drawn, probed):
    losses = [probed(drawn, "--seed", seed)["test"]["loss"] for seed in "112"]
    assert losses[0] == losses[1] != losses[2]


@proves("probe --swap", "probe --swap-set", "probe --where", "probe --all")
def test_a_swap_puts_in_what_was_asked_where_it_was_asked(run, probed, in_a_folder, capfd):
    swap = ["--swap", "avg", "--swap-set", "kernel_size=4", "--where", "pool"]
    probes = ["--probes", "gradient,aliasing"]
    before = probed(run, *swap, *probes)
    short = capfd.readouterr().out

    def after(out):
        (folder,) = (path for path in (in_a_folder / out).iterdir() if path.is_dir())
        return results_of(folder)

    assert {stage["name"] for stage in before["stages"].values()} == {"MaxPool2d"}
    for stage in after("out")["stages"].values():
        assert stage["name"] == "AvgPool2d" and re.search(r"kernel_size=\(?4", stage["settings"])
    probed(run, *swap, *probes, "--all", out="whole")
    assert len(capfd.readouterr().out.splitlines()) > len(short.splitlines())
    assert after("whole")["gradient"] == after("out")["gradient"]
    head = probed(run, "--swap", "gmp", "--where", "head", out="head")
    assert after("head")["stages"] == head["stages"] and after("head")["test"] != head["test"]


@proves("probe --device")
def test_the_device_is_where_it_is_computed(run, probed, command, capfd):
    if torch.cuda.is_available():
        here, there = (probed(run, "--device", name)["environment"]["device"] for name in ("cpu", "cuda"))
        assert here != there == torch.cuda.get_device_name()
    capfd.readouterr()
    assert command("probe", str(run), "--device", "cuda:99", "--samples", "2", "--probes", "aliasing") == 2
    assert "cuda:99" in capfd.readouterr().err


# Compare.


@pytest.fixture
def compared(command, in_a_folder, capfd, monkeypatch):
    """A function that compares the runs of a shelf: the output."""
    monkeypatch.setattr(plots, "draw", lambda comparison, histories: iter(()))
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


@proves("compare --metric", "compare --out", "compare --no-board")
def test_the_metric_is_compared_and_the_report_lies_in_out(shelf, compared, in_a_folder):
    same = ["--where", "model.width=24"]
    usual = compared(*same)
    assert "test accuracy" in usual and "--logdir" in usual
    assert (in_a_folder / "outputs" / "report" / "report.html").exists()
    found = compared(*same, "--metric", "test.loss", "--out", "elsewhere", "--no-board")
    assert found.startswith("Test loss") and "--logdir" not in found
    assert float(re.search(r"0\.09\d*", lines_of(found)["max"])[0]) == pytest.approx(0.09)
    assert (in_a_folder / "elsewhere" / "report.html").exists()


@proves("compare --all")
def test_all_prints_the_measures_that_the_report_holds(shelf, compared):
    same = ["--where", "model.width=24"]
    assert "parameters" not in compared(*same)
    assert "parameters" in compared(*same, "--all")


@proves("compare --status")
def test_the_status_lists_the_runs_and_compares_none(shelf, compared, in_a_folder):
    (shelf.root / "broken" / "seed0").mkdir(parents=True)
    (shelf.root / "broken" / "seed0" / "results.json").write_text("{")
    found = compared("--status")
    assert "10 runs: " in found and "9 done" in found and "1 damaged" in found
    assert not (in_a_folder / "outputs" / "report").exists()


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
    usual = ("choose.pools=max+kernel_size=3,subsample", "choose.cost=parameters", "choose.margin=0.05")
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


@proves("choose.rounds", "choose", "choose --config-dir", "choose --config-name")
def test_a_study_begins_with_the_files_named_and_has_at_most_so_many_rounds(chosen, in_a_folder):
    (in_a_folder / "mine" / "choose").mkdir(parents=True)
    (in_a_folder / "mine" / "choose" / "few.yaml").write_text("pools: [max, strided]\nmargin: 0\n")
    (in_a_folder / "mine" / "start.yaml").write_text("defaults: [train, _self_]\nmodel: {width: 3}\n")
    widths = set()

    def accuracy(pool, seed, settings):
        widths.add(settings["model"]["width"])
        return 0.9 + 0.01 * ((3 * seed + len(pool)) % 4)

    runs = Bench(accuracy)
    own = ["--config-dir", "mine", "--config-name", "start", "choose=few", "choose.rounds=4"]
    chosen(runs, *own)
    assert sorted(runs.ran) == [(pool, seed) for pool in ("max", "strided") for seed in range(4)]
    (report,) = (in_a_folder / "outputs" / "choose" / "digits" / "convnet").rglob("choose.md")
    assert widths == {3} and "max" in report.read_text()
