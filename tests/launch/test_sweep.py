import json
import math
import os
import shlex
import signal
import subprocess
import sys
import time
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torchvision
from short_runs import wait_for

from cnnpool import training
from cnnpool.fit import Classifier
from cnnpool.fit.checkpoints import Checkpoints
from cnnpool.launch import sweep
from cnnpool.launch.compose import Request, jobs_of
from cnnpool.launch.job import Job, Outcome
from cnnpool.launch.run_job import failed, is_of_memory
from cnnpool.launch.run_processes import shares
from cnnpool.launch.runners import RUNNERS
from cnnpool.launch.sweep import conclude, outcomes_of
from cnnpool.report.comparison import compare
from cnnpool.report.foreign import read
from cnnpool.run_folder import plan
from cnnpool.run_folder.checkpoint import load

SWEEP = ["-m", "pool=max,avg,sum"]


def fail_at(monkeypatch, *ends):
    """Let the training that is started n-th end by the n-th of ``ends``, unless that is None."""
    kept, left = training.train, iter(ends)

    def train(*arguments):
        if how := next(left, None):
            how()
        return kept(*arguments)

    monkeypatch.setattr(training, "train", train)


def raise_error():
    raise RuntimeError("the accelerator melted\nand more")


def raise_memory():
    raise RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: not enough memory")


def test_jobs_that_fail_do_not_end_the_sweep_and_the_same_command_does_only_those(
    call, states, tmp_path, monkeypatch
):
    with monkeypatch.context() as patch:
        fail_at(patch, raise_error, None, lambda: sys.exit(0))
        status, out, err = call("train", *SWEEP, *call.quick)
    assert status == 1 and "3 jobs: 2 failed, 1 done" in out
    said = ("RuntimeError: the accelerator melted", "exit(0) was called during the training")
    for line, one in zip(err.splitlines(), said, strict=True):
        assert one in line and "train.log)" in line
    assert states(tmp_path) == {"max": "failed", "avg": "done", "sum": "failed"}
    for pool in ("max", "sum"):
        (record,) = tmp_path.rglob(f"{pool}*/seed0/train.log")
        assert "Traceback" in record.read_text()
    (done,) = tmp_path.rglob("results.json")
    before = done.stat().st_mtime_ns
    status, out, _ = call("train", *SWEEP, *call.quick)
    assert status == 0 and "3 jobs: 3 done" in out
    assert states(tmp_path) == {"max": "done", "avg": "done", "sum": "done"}
    assert done.stat().st_mtime_ns == before and len(list(tmp_path.rglob("results.json"))) == 3


def test_jobs_after_one_that_ran_out_of_memory_have_processes_of_their_own(call, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        fail_at(patch, None, raise_memory)
        status, out, err = call("train", "-m", "pool=max,avg,sum,lp", "data.batch_size=256", *call.quick)
    assert status == 1 and err.count("\n") == 1 and "4 jobs: 3 done, 1 failed" in out
    assert "out of memory with data.batch_size=256: lower it, or raise fit.accumulate" in err
    assert "out of memory: the other jobs run in separate processes" in out
    found = {
        path.parts[-3].split("+")[0]: json.loads(path.read_text()) for path in tmp_path.rglob("status.json")
    }
    pids = {pool: state["pid"] for pool, state in found.items()}
    assert pids["max"] == pids["avg"] == os.getpid() and len(set(pids.values())) == 3
    again = tmp_path / "again"
    assert call("train", "pool=sum", "data.batch_size=256", f"hydra.run.dir={again}", *call.quick)[0] == 0
    (run,) = tmp_path.rglob("sum*/seed0")
    one, other = (load(folder / "checkpoints" / "last.ckpt")["state_dict"] for folder in (run, again))
    assert all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("could not create a primitive", True),
        ("libtorch_cuda.so: failed to map segment from shared object", True),
        ("[Errno 12] Cannot allocate memory", True),
        ("CUDA out of memory. Tried to allocate 2 GiB", True),
        ("mat1 and mat2 shapes cannot be multiplied", False),
    ],
)
def test_memory_that_ran_out_is_known_by_many_words(said, expected):
    assert is_of_memory(RuntimeError(said)) is expected
    led_to = RuntimeError("could not be loaded")
    led_to.__cause__ = OSError(said)
    assert is_of_memory(led_to) is expected


def test_the_traceback_of_a_job_is_shown_if_asked_for(call, monkeypatch):
    fail_at(monkeypatch, raise_error)
    monkeypatch.setenv("CNNPOOL_TRACEBACK", "1")
    status, _, err = call("train", *call.quick)
    assert status == 1 and "Traceback" in err and "\nRuntimeError: the accelerator melted\nand more\n" in err


@pytest.mark.parametrize(("devices", "said"), [(2, "another process of this training ended"), (1, "Runtime")])
def test_a_process_that_does_not_answer_is_one_of_several(tmp_path, devices, said):
    job = Job(tmp_path, [], {"fit": {"devices": devices}})
    assert failed(job, RuntimeError("[gloo] Connection closed by peer")).message.startswith(said)


def test_data_that_cannot_be_downloaded_are_asked_for_once(call, states, tmp_path, monkeypatch):
    monkeypatch.setattr(torchvision.datasets.MNIST, "mirrors", ["http://127.0.0.1:9/"])
    monkeypatch.setenv("no_proxy", "*")
    status, out, err = call("train", "-m", "pool=max,avg", "data=mnist,digits", *call.quick)
    assert status == 2 and "4 jobs: 2 failed, 2 done" in out
    assert out.count("downloading MNIST to") == out.count("cannot download") == out.count("as above") == 1
    assert "seed0 and 1 more: cannot download MNIST" in err and err.count("\n") == 1
    assert len(list(tmp_path.rglob("results.json"))) == 2


def plans(folder):
    return [(path, plan.read(path)) for path in folder.rglob(f"{plan.FOLDER}/*.json")]


def test_a_signal_ends_the_sweep_with_a_table_and_its_plan_and_the_same_command_goes_on(
    call, tmp_path, monkeypatch
):
    seen = []

    def interrupt(self, trainer, module):
        seen.extend((path, plan.lives(path)) for path, _ in plans(tmp_path))
        os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "on_validation_start", interrupt)
        status, out, err = call("train", *SWEEP, *call.quick)
        [(path, left)] = plans(tmp_path)
        again = call("train", "-m", "pool=avg,max", *call.quick)[1]
    assert status == 128 + signal.SIGTERM
    assert "3 jobs: 1 stopped, 2 not run" in out
    assert err.startswith("stopped: ") and "by SIGTERM at step 1; rerun the same command to resume" in err
    assert "2 jobs: 2 stopped" in again, "one now, one earlier"
    assert seen[0] == (path, True) and not plan.lives(path)
    assert path.parent.parent == tmp_path / "outputs" / "digits" / "convnet"
    assert [words[0] for words in left.jobs.values()] == ["pool=max", "pool=avg", "pool=sum"]
    assert call("train", *SWEEP, *call.quick)[0] == 0
    assert {path.parent for path in tmp_path.rglob("results.json")} == set(left.folders(path))
    assert not list(tmp_path.rglob(plan.FOLDER))


def test_ctrl_c_in_a_single_run_saves_says_how_to_go_on_and_exits_130(call, tmp_path, monkeypatch):
    def interrupt(self, trainer, module):
        os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "on_train_start", interrupt)
        patch.setattr(Checkpoints, "on_validation_start", interrupt)
        status, _, err = call("train", *call.quick)
    # Two signals: the second, during validation, ends the run at once.
    assert status == 130 and err.startswith("stopped: by SIGINT")
    status, _, err = call("train", *call.quick)
    assert (status, err) == (0, "")


def test_several_processes_do_the_jobs_outlive_one_that_is_killed_and_import_nothing_from_here(tmp_path):
    (tmp_path / "mine" / "pool").mkdir(parents=True)
    (tmp_path / "mine" / "pool" / "wide.yaml").write_text("name: avg\nkernel_size: 4\n")
    (tmp_path / "hydra_plugins" / "evil").mkdir(parents=True)
    for name in ("numba", "torch", "yaml", "socket", "hydra_plugins/evil/__init__"):
        (tmp_path / f"{name}.py").write_text("open('imported', 'w')\nraise SystemExit(7)\n")
    quick = [
        "data.limit=64", "model.width=2", "fit.pictures=false", "probe=none",
        "fit.checkpoint_every_minutes=0"
    ]  # fmt: skip
    command = [
        str(Path(sys.executable).with_name("cnnpool")), "train", "--config-dir", "mine", "-m",
        "launch=processes", "launch.jobs=2", "fit.epochs=1,9999", "pool=max,wide", *quick,
    ]  # fmt: skip
    environment = os.environ | {"OMP_NUM_THREADS": "1"}

    def saved(*but):
        found = tmp_path.glob("outputs/digits/convnet/*9999*/seed0/checkpoints/last.ckpt")
        return [path.parents[1] for path in found if path.parents[1] not in but]

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as sweep:
        wait_for(lambda: len(list(tmp_path.rglob("results.json"))) == 2)
        killed, *_ = wait_for(saved)
        os.kill(json.loads((killed / "status.json").read_text())["pid"], signal.SIGKILL)
        rest, *_ = wait_for(lambda: saved(killed))
        sweep.send_signal(signal.SIGTERM)
        out, err = (text.decode() for text in sweep.communicate(timeout=120))
    assert sweep.returncode == 128 + signal.SIGTERM, err
    assert "4 jobs: 2 done, 1 failed, 1 stopped\n" in out and "killed by SIGKILL (out of memory?)" in out
    assert "\nresults: outputs/digits/convnet\n" in out
    failed, stopped = (line for line in err.splitlines() if not line.startswith("training: "))
    assert failed.startswith("error: ") and "by SIGTERM" in stopped
    assert json.loads((killed / "status.json").read_text())["state"] == "failed"
    state = json.loads((rest / "status.json").read_text())
    assert state["state"] == "stopped" and "by SIGTERM at step" in state["error"]
    assert load(rest / "checkpoints" / "last.ckpt")["cnnpool"]["steps"] > 0
    assert not (tmp_path / "imported").exists()


def outcome(state, status):
    return Outcome("a run", state, "said", status, Path("train.log"))


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        ([("done", 0), ("done", 0)], 0),
        ([("done", 0), ("failed", 2)], 2),
        ([("failed", 2), ("failed", 1)], 1),
        ([("refused", 2), ("done", 0)], 2),
        ([("failed", 1)], 1),
    ],
)
def test_the_status_is_2_only_where_nothing_but_mistakes_is_in_the_way(outcomes, status, capsys):
    assert conclude([outcome(*each) for each in outcomes]) == status


def test_the_first_seed_of_each_choice_draws_pictures_unless_they_are_asked_for(monkeypatch):
    monkeypatch.setattr(sweep, "run_local", lambda jobs: iter(jobs))

    def drawn(jobs):
        jobs = deepcopy(jobs)
        sweep.outcomes_of(jobs)
        return [job.settings["fit"]["pictures"] for job in jobs]

    one, two, three, four = jobs = jobs_of(Request(["pool=max,avg", "seed=3,4", "fit.lr=0.1"], True))
    assert drawn(jobs) == [True, False, True, False]
    assert drawn([one, three, two, four]) == [True, True, False, False]
    assert drawn([replace(job, folder=Path("x", str(n))) for n, job in enumerate(jobs)]) == drawn(jobs)
    assert drawn(jobs_of(Request(["seed=3,4", "fit.pictures=true"], True))) == [True, True]
    assert drawn(jobs_of(Request(["seed=3,4", "fit.pictures=false"], True))) == [False, False]


def test_cores_are_divided_among_jobs_and_their_devices_unless_the_environment_says_otherwise(monkeypatch):
    def share(count, devices, jobs=None, threads=None):
        asked = [Job(Path("run"), [], {"fit": {"devices": devices}})] * count
        return shares(asked, jobs, threads)

    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert share(20, 1) == (8, 3) and share(20, 1, threads=1) == (8, 1)
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert share(20, 1) == (8, 1)
    assert share(3, 1) == (3, 2)
    assert share(20, 1, jobs=2) == (2, 4)
    assert share(9, 2, jobs=2) == (2, 2)
    assert share(20, 1, jobs=2, threads=1) == (2, 1)
    assert share(9, 1, jobs=2, threads=3) == (2, 3)
    assert share(20, 4) == (2, 1)
    assert share(1, 4) == (1, 2)
    assert share(20, 16) == (1, 1)


@pytest.mark.parametrize(("sweep", "count"), [([], 1), (SWEEP, 3)])
def test_a_training_on_several_devices_gets_a_process_for_each(monkeypatch, call, sweep, count):
    seen = []

    def note(asked, **options):
        seen.append((len(asked), options))
        return iter(())

    monkeypatch.setitem(RUNNERS, "processes", note)
    call("train", *sweep, "fit.devices=2", *call.quick)
    assert seen == [(count, {"jobs": 1})]


SRUN = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"}


@pytest.mark.parametrize("place", [{"LOCAL_RANK": "0"}, {"RANK": "0"}, SRUN])
def test_a_process_that_torchrun_or_srun_started_starts_none_itself(monkeypatch, place):
    asked = [Job(Path("run"), [], {"fit": {"devices": 2}, "launch": {"name": "local"}})]
    monkeypatch.setattr("cnnpool.launch.sweep.run_here", lambda jobs: iter([jobs]))
    monkeypatch.setitem(RUNNERS, "processes", lambda asked, **options: iter(["processes"]))
    assert list(outcomes_of(asked)) == ["processes"]
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    assert list(outcomes_of(asked)) == [asked]


@pytest.mark.parametrize(("where", "module"), [("slurm", "run_slurm"), ("ray", "run_ray")])
def test_a_launcher_that_is_not_installed_is_named_with_its_remedy_and_leaves_no_plan(
    call, in_a_folder, monkeypatch, where, module
):
    monkeypatch.setattr(f"cnnpool.launch.{module}.find_spec", lambda name: None)
    assert f"pip install 'cnnpool[{where}]'" in call.refused(*SWEEP, f"launch={where}", *call.quick)
    assert not (in_a_folder / "outputs").exists()


@pytest.mark.parametrize(
    ("arguments", "jobs", "first"),
    [
        (["experiment=quickstart"], 3 * 10, "quickstart/digits/convnet/max/seed0"),
        (["experiment=quickstart", "pool=avg", "seed=5"], 1, "quickstart/digits/convnet/avg/seed5"),
        (["experiment=mnist_operators", "seed=0"], 12, "mnist_operators/mnist/convnet/max/seed0"),
    ],
)
def test_an_experiment_is_its_sweep_unless_told_otherwise(arguments, jobs, first):
    asked = jobs_of(Request(arguments, multirun=True))
    assert len(asked) == jobs
    assert asked[0].name == first


def test_a_run_says_what_it_measures_and_where_its_results_are(call, tmp_path):
    quick = [option for option in call.quick if option != "probe=none"]
    status, out, _ = call("train", *quick, "hydra.run.dir=run", "probe.gradient.samples=8")
    assert status == 0
    assert "measuring: " in out and "gradient" in out
    assert out.splitlines()[-3] == "results: run"
    assert [line.split()[-2:] for line in out.splitlines()[-2:]] == [["--logdir", "run"], ["probe", "run"]]


def test_a_sweep_ends_with_where_its_results_are_and_commands_that_work(call):
    status, out, err = call("train", "-m", *call.quick, "out=my runs", "seed=0,1", "pool=max,avg")
    assert status == 0, err
    *_, results, compare, board, link = out.splitlines()
    assert link.strip() == "http://localhost:6006/#downsampling"
    assert results == "results: my runs/digits/convnet"
    assert board.split()[-3:] == ["--logdir", "'my", "runs/digits/convnet'"]
    words = shlex.split(compare.removeprefix("next:"))
    # As a shell finds it: by its name on PATH, or by its path from here.
    assert Path(words[0]).name == "cnnpool" or words[-4:-2] == ["-m", "cnnpool"]
    assert words[-2:] == ["compare", "my runs/digits/convnet"]
    status, out, err = call(*words[-2:], "--no-board")
    assert (status, [line[:3] for line in out.splitlines()[4:6]]) == (0, ["max", "avg"]), (out, err)
    assert "report: my runs/digits/convnet/report/report.html" in out


def test_jobs_that_fail_alike_are_one_line(capsys):
    conclude(
        [Outcome(f"run{n}", "failed", "no network" if n else "no memory", 2, Path("none")) for n in range(4)]
    )
    assert capsys.readouterr().err == "error: run0: no memory\nerror: run1 and 2 more: no network\n"


def test_a_sweep_has_a_line_a_run_with_the_mean_so_far_and_the_time_left(monkeypatch, capsys):
    def run(jobs, **options):
        for number, job in enumerate(jobs):
            time.sleep(0.1)
            state = ("failed", "no memory", 1) if number in (1, 2) else ("done", "test accuracy", 0)
            accuracy = None if state[2] else 0.9 + 0.01 * number
            yield Outcome(job.name, *state, job.folder, accuracy=accuracy, trained=True)

    monkeypatch.setitem(RUNNERS, "processes", run)
    names = ["max/seed0", "max/seed1", "max/seed2", "max/seed3", "avg/seed0"]
    choices = [{"pool": {"name": name[:3]}, "seed": int(name[-1])} for name in names]
    launch = {"launch": {"name": "processes"}}
    sweep.run_all(
        [Job(Path("outputs", name), [], launch | one) for name, one in zip(names, choices, strict=True)]
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[:6] == [
        "[1/5] max/seed0   test accuracy   0 s left", "[2/5] max/seed1   failed: no memory   0 s left",
        "[3/5] max/seed2   failed: as above   0 s left",
        "[4/5] max/seed3   test accuracy   mean of 2: 91.50 %   0 s left",
        "[5/5] avg/seed0   test accuracy", "5 jobs: 3 done, 2 failed"
    ]  # fmt: skip


def test_a_mean_is_of_seeds_of_one_choice_wherever_their_folders_are(monkeypatch, capsys):
    def run(jobs, **options):
        for number, job in enumerate(jobs):
            yield Outcome(job.name, "done", "accuracy", 0, job.folder, accuracy=0.9 + 0.01 * number)

    monkeypatch.setitem(RUNNERS, "processes", run)
    # The last repeats the second with another setting that changes no result.
    jobs = [("max", 0, True), ("avg", 0, True), ("max", 1, True), ("avg", 0, False)]
    folders = map(Path, ["outputs/0", "outputs/1", "outputs/deep/2", "outputs/deep/3"])
    of = [
        {"launch": {"name": "processes"}, "pool": {"name": pool}, "seed": seed, "fit": {"progress": shown}}
        for pool, seed, shown in jobs
    ]
    sweep.run_all([Job(folder, [], settings) for folder, settings in zip(folders, of, strict=True)])
    lines = capsys.readouterr().out.splitlines()[:4]
    assert [line.partition("accuracy")[2].strip() for line in lines] == ["", "", "mean of 2: 91.00 %", ""]


def test_a_run_that_diverges_is_compared_with_its_choice(call, tmp_path, monkeypatch):
    asked = ("train", *call.quick, "pool@stage.s1=avg", "fit.lr=1")
    assert call(*asked, "seed=0")[0] == 0
    monkeypatch.setattr(Classifier, "loss", lambda self, logits, labels: logits.sum() * math.nan)
    assert call(*asked, "seed=1")[0] == 1
    runs = read([tmp_path / "outputs"])
    assert [(run.seed, run.diverged) for run in runs] == [(0, False), (1, True)]
    comparison = compare(runs)
    assert [row.broken for row in comparison.rows] == [[1]] and comparison.by == ["pool"]


def test_a_single_run_and_further_processes_of_a_training_plan_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "run_here", lambda jobs: iter(plans(tmp_path)))
    monkeypatch.setattr(sweep, "run_local", lambda jobs: iter(plans(tmp_path)))
    jobs = [Job(tmp_path / f"run{n}", [], {}) for n in range(2)]
    assert list(outcomes_of(jobs[:1])) == []
    monkeypatch.setenv("RANK", "1")
    assert list(outcomes_of(jobs)) == []


def test_a_further_process_that_fails_adds_its_traceback_to_the_log(call, tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    (tmp_path / "run").mkdir()
    assert call("train", *call.quick, "fit.optimizer=sgd", "fit.lr=1e30", "hydra.run.dir=run")[0] == 1
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["train.log"]
    assert "DivergedError" in (tmp_path / "run" / "train.log").read_text()
    assert call("train", *call.quick, "hydra.run.dir=run") == (0, "", "")
    monkeypatch.setattr(training, "train", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    assert call("train", *call.quick, "hydra.run.dir=run")[0] == 128 + signal.SIGTERM
