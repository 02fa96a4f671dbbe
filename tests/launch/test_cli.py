import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cnnpool.choices import stage_settings
from cnnpool.launch import conf_dir
from cnnpool.launch.config import refuse_code
from cnnpool.launch.folders import choice_name
from cnnpool.run_folder.checkpoint import load
from cnnpool.system.progress import Progress


def test_help_imports_nothing_heavy():
    heavy = "{'torch', 'lightning', 'hydra', 'omegaconf', 'numpy', 'matplotlib', 'torchvision', 'sklearn'}"
    code = (
        "import sys\nfrom cnnpool import cli\ntry: cli.main(['--help'])\nexcept SystemExit: pass\n"
        f"sys.exit(bool({heavy} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_the_version_is_the_packages(call):
    from cnnpool import __version__

    assert call("--version")[1] == f"cnnpool {__version__}\n"


def test_an_unknown_command_is_one_line_and_status_2(call):
    status, _, err = call("trian")
    assert status == 2
    assert err.startswith("error: no command 'trian'; did you mean 'train'?") and err.count("\n") == 1


# Those that scripts/reliability/fault does not try already.
MISTAKES = {
    "sed=1": "unknown key 'sed'; did you mean 'seed'?",
    "fit.epoch=3": "did you mean 'fit.epochs'?",
    "stage.s2=avg": "a stage's operator is chosen by pool@stage.s2=avg",
    "stage.s2.kernel_size=5": "choose that too: pool@stage.s2=NAME",
    "pool@stage.s9=avg": "there are pool@stage.s1, pool@stage.s2",
    "probe.gradient.sampels=4": "did you mean 'probe.gradient.samples'?",
    "pool.kernal_size=3": "did you mean 'pool.kernel_size'?",
    "zzz=1": "unknown key 'zzz'; choose from ",
    "pool.p=3": "'pool.p' is an option of pool=aps,gem,lp,max_aps, not of the pool that is chosen",
    "model.norm=false": "'model.norm' is an option of model=allconv, not of the model that is chosen",
    "fit.epochs=many": "fit.epochs must be a whole number from 1 to 10^9, got 'many'",
    "seed=x": "seed must be",
    "+model._target_=os.system": "cannot name code",
    "+probe.gradient.samples=0": "probe.gradient.samples must be a whole number from 1 to 10^9, got 0",
}


@pytest.mark.parametrize("override", MISTAKES)
def test_a_mistake_is_a_line_that_names_it_and_status_2_and_trains_nothing(override, call, in_a_folder):
    status, _, err = call("train", *call.quick, override)
    assert status == 2, err
    assert MISTAKES[override] in err
    assert "Traceback" not in err
    assert not list(in_a_folder.rglob("results.json"))
    assert not list(in_a_folder.rglob("*.ckpt"))


def test_a_run_leaves_the_documented_files_in_a_stable_folder(call, in_a_folder):
    status, out, err = call("train", "pool=avg", "seed=3", *call.quick)
    assert status == 0, err
    (results,) = in_a_folder.rglob("results.json")
    folder = results.parent
    assert folder.parts[-1] == "seed3"
    assert folder.relative_to(in_a_folder).parts[:3] == ("outputs", "digits", "convnet")
    assert folder.parts[-2].startswith("avg+")
    for name in (".hydra/config.yaml", "train.log", "metrics.jsonl", "checkpoints/last.ckpt", "status.json"):
        assert (folder / name).exists()
    content = json.loads(results.read_text())
    assert content["pool"]["name"] == "avg" and content["seed"] == 3
    assert content["deterministic"] is True
    assert "pool=avg" in content["overrides"]
    header, row = (line.split() for line in out.splitlines() if "val loss" in line or "epoch 1/1" in line)
    assert (
        header == ["train", "loss", "train", "accuracy", "val", "loss", "val", "accuracy", "time"]
        and len(row) == 10
    )
    assert "epoch 1/1" in (folder / "train.log").read_text()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["explain", "max"], ["loading PyTorch"]),
        (["choose", "choose.pools=max,maxx"], ["loading scipy"]),
        (
            ["train", "data.limit=64", "model.width=2", "fit.epochs=1", "fit.progress=false", "probe=none"],
            ["loading PyTorch", "loading Lightning"],
        ),
    ],
)
def test_packages_that_take_seconds_to_import_are_named(arguments, named, call, in_a_folder, monkeypatch):
    said = []
    monkeypatch.setattr(Progress, "__enter__", lambda self: said.append(self.what) or self)
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda stream: True, raising=False)
    call(*arguments)
    assert [line for line in said if line.startswith("loading")] == named


def test_the_same_command_again_keeps_the_finished_run(call, in_a_folder):
    call("train", *call.quick)
    (results,) = in_a_folder.rglob("results.json")
    before = results.stat().st_mtime_ns
    status, out, _ = call("train", *call.quick)
    assert status == 0 and "finished already" in out
    assert results.stat().st_mtime_ns == before


def test_a_folder_of_another_run_is_refused(call, in_a_folder):
    call("train", *call.quick, "hydra.run.dir=here")
    status, _, err = call("train", *call.quick, "hydra.run.dir=here", "pool=avg")
    assert status == 2
    assert "holds a finished run with other settings (pool.name: max -> avg;" in err


def test_a_sweep_goes_on_after_a_failing_job_and_says_so(call, in_a_folder):
    status, out, err = call("train", "-m", "pool=max,avg", "pool.stride=2,-1", *call.quick)
    assert status == 2
    assert len(list(in_a_folder.rglob("results.json"))) == 2
    # A line a run, none of its epochs.
    assert out.count("/seed0   test accuracy ") == 2 and "epoch 1/1" not in out
    assert all("epoch 1/1" in path.read_text() for path in in_a_folder.rglob("train.log"))
    assert "4 jobs: 2 done, 2 failed" in out
    assert err.count("stride must be") == 1 and "/seed0 and 1 more: " in err
    states = [json.loads(p.read_text())["state"] for p in in_a_folder.rglob("status.json")]
    assert states == ["done", "done"]


def test_one_override_sets_every_stage_and_one_sets_a_single_stage(call, in_a_folder):
    overrides = ["pool=avg", "pool@stage.s2=max", "stage.s2.kernel_size=3"]
    status, _, err = call("train", *overrides, *call.quick)
    assert status == 0, err
    (results,) = in_a_folder.rglob("results.json")
    stages = json.loads(results.read_text())["stages"]
    assert stages["s1"]["name"] == "avg" and stages["s1"]["kernel_size"] == 2
    assert stages["s2"]["name"] == "max" and stages["s2"]["kernel_size"] == 3


def test_every_pool_and_readout_yaml_can_be_chosen(call):
    status, out, _ = call("train", "--help")
    assert status == 0 and "1 a run failed, 2 a mistake in what was asked, 128 + the signal" in out
    for room in ("pool", "readout", "model", "data"):
        for path in (conf_dir() / room).glob("*.yaml"):
            assert path.stem in out


def test_scripts_are_doors_to_the_same_commands():
    scripts = Path(__file__).parents[2] / "scripts"
    done = subprocess.run(
        [sys.executable, str(scripts / "explain.py"), "subsample"], capture_output=True, text=True
    )
    assert done.returncode == 0 and "== subsample ==" in done.stdout


def test_choice_names_are_the_same_in_any_order():
    assert choice_name("max", []) == "max"
    assert choice_name("max", ["pool.kernel_size=3"]) == "max+kernel_size=3"
    parts = ["readout=gap", "pool@stage.s2=avg", "stage.s2.kernel_size=3"]
    assert choice_name("blur", parts) == choice_name("blur", parts[::-1])
    assert choice_name("blur", parts) == "blur+readout=gap+s2.kernel_size=3+s2=avg"
    assert "/" not in choice_name("max", ["data.path=/a/b"])


def test_a_stage_inherits_the_common_operator_and_its_options():
    config = {
        "pool": {"name": "max", "kernel_size": 3},
        "stage": {"s1": {"name": "inherit"}, "s2": {"name": "avg", "stride": 2}},
        "model": {"name": "convnet"},
    }
    assert stage_settings(config, ("s1", "s2")) == {
        "s1": {"name": "max", "kernel_size": 3},
        "s2": {"name": "avg", "stride": 2},
    }


def test_no_yaml_of_ours_names_code():
    for path in conf_dir().rglob("*.yaml"):
        if path.parts[-3] != "hydra":
            refuse_code(yaml.safe_load(path.read_text()) or {})


def test_a_run_logs_no_longer_than_it_takes(call):
    assert call("train", "pool=max", *call.quick)[0] == 0
    assert call("train", "pool.kernel_size=30", *call.quick)[0] == 2
    assert not logging.getLogger().handlers
    logging.getLogger("cnnpool").warning("the folder of the refused run is gone")


def test_a_network_takes_what_it_needs_from_the_training_images_before_the_first_step(call, in_a_folder):
    status, _, err = call("train", "model=airbench", "fit.max_steps=1", "hydra.run.dir=run", *call.quick)
    assert status == 0, err
    weight = load(Path("run/checkpoints/last.ckpt"))["state_dict"]["model.features.0.weight"]
    # Not the pixels' own axes, and in both signs.
    assert weight.count_nonzero() == weight.numel() and weight[:4].equal(-weight[4:])


@pytest.mark.parametrize("options", [["data.batch_size=1"], ["data.batch_size=4", "fit.accumulate=4"]])
def test_one_image_is_too_little_to_normalise_a_map_of_one_pixel(options, call, in_a_folder):
    status, _, err = call(
        "train", "model=sprint", "model.pad_ends=false", "hydra.run.dir=run", *call.quick, *options
    )
    size, pieces = options[0].rpartition("=")[2], 4 if len(options) > 1 else 1
    assert status == 2
    assert err == (
        "error: batch normalisation of a 1x1 map needs at least two images at once: "
        f"give it more by data.batch_size={size} and fit.accumulate={pieces}\n"
    )
