import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl

from cnnpool.fit.metrics_callback import MetricsCallback
from cnnpool.launch import build
from cnnpool.launch.compose import compose
from cnnpool.launch.job import Outcome
from cnnpool.launch.remote import gather, remote
from cnnpool.launch.sweep import Launch, conclude, shares
from cnnpool.run_folder.checkpoint import load

SWEEP = ["-m", "pool=max,avg,sum"]


def fail_at(monkeypatch, number, how):
    """Let the training that is started ``number``-th (from 0) end by ``how()``."""
    kept, count = build.train, [0]

    def train(*arguments):
        count[0] += 1
        if count[0] - 1 == number:
            how()
        return kept(*arguments)

    monkeypatch.setattr(build, "train", train)


def raise_error():
    raise RuntimeError("the accelerator melted\nand more")


def raise_memory():
    raise RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: not enough memory")


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (raise_error, "RuntimeError: the accelerator melted"),
        (lambda: sys.exit(0), "something called exit(0) while it trained"),
        (raise_memory, "out of memory with data.batch_size=256: lower it, or raise fit.accumulate"),
    ],
)
def test_a_job_that_fails_or_ends_early_does_not_end_the_sweep(
    call, states, tmp_path, monkeypatch, how, said
):
    with monkeypatch.context() as patch:
        fail_at(patch, 1, how)
        status, out, err = call("train", *SWEEP, "data.batch_size=256", *call.quick)
    assert status == 1
    assert "3 jobs: 2 done, 1 failed" in out
    assert said in err and "train.log)" in err and err.count("\n") == 1
    assert states(tmp_path) == {"max": "done", "avg": "failed", "sum": "done"}
    (record,) = tmp_path.rglob("avg*/seed0/train.log")
    assert "Traceback" in record.read_text()


def test_the_same_sweep_again_does_only_what_failed(call, states, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        fail_at(patch, 1, raise_error)
        call("train", *SWEEP, *call.quick)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("results.json")}
    status, out, _ = call("train", *SWEEP, *call.quick)
    assert status == 0 and "3 jobs: 3 done" in out
    assert set(states(tmp_path).values()) == {"done"}
    assert all(path.stat().st_mtime_ns == time for path, time in before.items())
    assert len(list(tmp_path.rglob("results.json"))) == len(before) + 1 == 3


def test_a_signal_ends_the_sweep_with_a_table_and_the_same_command_goes_on(call, tmp_path, monkeypatch):
    def interrupt(self, trainer, module):
        os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(MetricsCallback, "on_validation_start", interrupt)
        status, out, err = call("train", *SWEEP, *call.quick)
    assert status == 128 + signal.SIGTERM
    assert "3 jobs: 1 stopped, 2 not run" in out
    assert err.startswith("stopped: ") and "by SIGTERM at step 1; the same command goes on from there" in err
    assert call("train", *SWEEP, *call.quick)[0] == 0


def test_ctrl_c_in_a_single_run_saves_says_how_to_go_on_and_exits_130(call, tmp_path, monkeypatch):
    def interrupt(self, trainer, module):
        os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(MetricsCallback, "on_train_start", interrupt)
        patch.setattr(MetricsCallback, "on_validation_start", interrupt)
        status, _, err = call("train", *call.quick)
    # Two signals: the second, during validation, ends the run at once.
    assert status == 130 and err.startswith("stopped: by SIGINT")
    status, _, err = call("train", *call.quick)
    assert (status, err) == (0, "")


def test_several_processes_do_the_jobs_of_a_sweep_and_outlive_one_that_is_killed(tmp_path, states):
    (tmp_path / "mine" / "pool").mkdir(parents=True)
    (tmp_path / "mine" / "pool" / "wide.yaml").write_text("name: avg\nkernel_size: 4\n")
    quick = [
        "data.limit=64",
        "model.width=2",
        "fit.pictures=false",
        "probe=none",
        "fit.checkpoint_every_minutes=0",
    ]
    command = [
        sys.executable, "-m", "cnnpool", "train", "--config-dir", "mine", "-m", "launch=processes",
        "launch.jobs=2", "pool=max,wide", "fit.epochs=1,9999", *quick,
    ]  # fmt: skip
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as sweep:
        endless = "outputs/digits/convnet/*9999*/seed0"
        killed = wait_for(
            lambda: [p for p in tmp_path.glob(endless) if (p / "checkpoints/last.ckpt").exists()]
        )
        os.kill(json.loads((killed[0] / "status.json").read_text())["pid"], signal.SIGKILL)
        rest = wait_for(
            lambda: [
                p for p in tmp_path.glob(endless) if p != killed[0] and (p / "checkpoints/last.ckpt").exists()
            ]
        )
        sweep.send_signal(signal.SIGTERM)
        out, err = (text.decode() for text in sweep.communicate(timeout=120))
    assert sweep.returncode == 128 + signal.SIGTERM, err
    assert "killed by SIGKILL (out of memory?)" in out
    assert "by SIGTERM" in err
    assert json.loads((killed[0] / "status.json").read_text())["state"] == "failed"
    stopped = json.loads((rest[0] / "status.json").read_text())
    assert stopped["state"] == "stopped" and "by SIGTERM at step" in stopped["error"]
    assert load(rest[0] / "checkpoints" / "last.ckpt")["cnnpool"]["steps"] > 0


def wait_for(look, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := look():
            return found
        time.sleep(0.05)
    pytest.fail("it never came to that")


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


def test_cores_are_divided_among_jobs(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    assert shares(Launch(name="processes"), 20) == (8, 1)
    assert shares(Launch(name="processes"), 3) == (3, 2)
    assert shares(Launch(name="processes", jobs=2), 20) == (2, 4)
    assert shares(Launch(name="processes", jobs=2, threads=1), 20) == (2, 1)


@pytest.mark.parametrize("override", ["launch.jobs=0", "launch.threads=-1"])
def test_a_share_out_of_range_is_refused(call, override):
    status, _, err = call("train", *SWEEP, "launch=processes", override, *call.quick)
    assert status == 2 and "must be a whole number from 1 to 1,024, or null" in err


def test_a_sweep_of_trainings_on_several_devices_gives_each_a_process(monkeypatch, call):
    seen = []
    monkeypatch.setattr(
        "cnnpool.launch.sweep.run_processes", lambda jobs, arguments, *shares: seen.append(shares) or []
    )
    call("train", *SWEEP, "fit.devices=2", *call.quick)
    assert [at_once for at_once, _ in seen] == [1]


@pytest.mark.parametrize("where", ["slurm", "ray"])
def test_a_launcher_that_is_not_installed_is_named_with_its_remedy(call, monkeypatch, where):
    for module in ("remote", "run_ray"):
        monkeypatch.setattr(f"cnnpool.launch.{module}.find_spec", lambda name: None)
    status, _, err = call("train", *SWEEP, f"launch={where}", *call.quick)
    assert status == 2
    assert f"pip install 'cnnpool[{where}]'" in err and err.count("\n") == 1


def test_what_other_machines_did_is_gathered_from_the_folders(tmp_path):
    def write(name, state, moment):
        (tmp_path / name).mkdir()
        content = {"state": state, "error": "why" if state == "failed" else None, "pid": 1, "time": moment}
        content |= {"status": 2} if name == "c" else {}
        (tmp_path / name / "status.json").write_text(json.dumps(content))

    def launch():
        write("a", "done", time.time())
        write("b", "failed", time.time())
        write("c", "failed", time.time())
        raise ValueError("a job was lost")

    write("old", "done", time.time() - 60)
    outcomes, error = gather([f"out={tmp_path}"], launch)
    assert [(each.run, each.state, each.said, each.status) for each in outcomes] == [
        ("a", "done", "", 0),
        ("b", "failed", "why", 1),
        ("c", "failed", "why", 2),
    ]
    assert error == "a job was lost"


def test_a_launcher_that_an_experiment_chooses_is_known(tmp_path):
    (tmp_path / "mine" / "experiment").mkdir(parents=True)
    (tmp_path / "mine" / "experiment" / "far.yaml").write_text(
        "# @package _global_\ndefaults:\n  - override /launch: slurm\nout: elsewhere\n"
    )
    arguments = ["--config-dir", "mine", "-m", "experiment=far"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cnnpool.launch.remote.find_spec", lambda name: name)
        assert remote(arguments) == "slurm"
        assert remote([*arguments, "launch=local"]) is None
        assert remote(["-m", "experiment=quickstart"]) is None
    (tmp_path / "elsewhere" / "a").mkdir(parents=True)
    content = {"state": "done", "error": None, "pid": 1, "time": time.time() + 60}
    (tmp_path / "elsewhere" / "a" / "status.json").write_text(json.dumps(content))
    assert [each.run for each in gather(arguments, lambda: None)[0]] == ["a"]


@pytest.mark.parametrize(
    ("arguments", "jobs", "first"),
    [
        (["experiment=quickstart"], 4 * 2 * 3, "quickstart/digits/convnet/max+readout=flatten/seed0"),
        (
            ["experiment=quickstart", "pool=avg", "seed=5"],
            2,
            "quickstart/digits/convnet/avg+readout=flatten/seed5",
        ),
        (["experiment=mnist_operators", "seed=0"], 12, "mnist_operators/mnist/convnet/max/seed0"),
    ],
)
def test_an_experiment_is_its_sweep_unless_told_otherwise(arguments, jobs, first, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = compose(["-m", *arguments])
    assert len(asked) == jobs
    assert asked[0].name == first


def test_every_job_of_a_sweep_is_composed_once(monkeypatch, tmp_path):
    composed, whole = [], ConfigLoaderImpl.load_sweep_config

    def load(loader, master_config, sweep_overrides):
        composed.append(sweep_overrides[-1])
        return whole(loader, master_config, sweep_overrides)

    monkeypatch.setattr(ConfigLoaderImpl, "load_sweep_config", load)
    monkeypatch.chdir(tmp_path)
    jobs = compose(["-m", "pool=max", "seed=2,0,1"])
    assert [job.settings["seed"] for job in jobs] == [2, 0, 1]
    assert composed == ["seed=2", "seed=0", "seed=1"]
    assert ConfigLoaderImpl.load_sweep_config is load
