"""Unknown names and values out of range are refused before torch is imported, for all jobs of a command."""

import subprocess
import sys
from pathlib import Path

import pytest
from torch import nn

from cnnpool import registry
from cnnpool.launch import check
from cnnpool.launch.compose import Request, jobs_of
from cnnpool.pool import Pool2d

EARLY = {
    **dict.fromkeys((
        "fit.precision=8", "seed=4294967296", "seed=true", "launch=processes launch.jobs=0", "+pool.extra=1",
        "pool.name=nosuch", "stage.s2=avg", "data.name=mnists", "+probe.nosuch.samples=1", "pool=nosuch",
        "nosuch=1", "out=", "seed=${oc.env:NOPE}", "probe.gradient.epsilon=2",
    ), ""),
    "pool.kernel_size=0": "pool.kernel_size must be a whole number from 1 to 1,024, or two of them, got 0",
    "pool.ties=all": "pool.ties must be one of first, last, split, got 'all'",
    "pool=blur pool.padding_mode=mirror": "pool.padding_mode must be one of reflect, replicate, circular",
    "pool=blur pool.filter_size=1000000000000": "pool.filter_size must be a whole number from 1 to 255",
    "pool@stage.s2=avg stage.s2.stride=0": "stage.s2.stride must be a whole number from 1 to 1,024",
    "data.batch_size=0": "data.batch_size must be a whole number from 1 to",
    "model.width=0": "model.width must be a whole number from 1 to 16,384, got 0",
    "readout=flatten readout.hidden=-1": "readout.hidden must be a whole number from 0 to 65,536, got -1",
    "+probe.gradient.samples=0": "probe.gradient.samples must be a whole number from 1 to 10^9, got 0",
    "fit.lr=-1": "fit.lr must be a number above 0 and finite, got -1",
    "fit.epochs=many": "fit.epochs must be a whole number from 1 to 10^9, got 'many'",
    "fit.test=best fit.epochs=3 trainer.check_val_every_n_epoch=4": "fit.test=best needs an epoch with "
    "validation: lower trainer.check_val_every_n_epoch=4 to fit.epochs=3 or less",
    "trainer.max_time=00:00:00:00": "trainer.max_time=00:00:00:00 is no time to train in: raise it",
    "trainer.gradient_clip_algorithm=value": "trainer.gradient_clip_algorithm=value clips nothing alone",
    "seed=-1": "seed must be a whole number from 0 to 4,294,967,295, got -1",
}  # fmt: skip
WATCHED = "callback=early_stopping callback.early_stopping.monitor"
LATE = {
    f"{WATCHED}=val/acc": "callback.early_stopping.monitor=val/acc is not measured: choose from "
    "train/accuracy, train/loss, val/accuracy, val/loss",
    f"{WATCHED}=val/loss data.val_size=0": "callback.early_stopping.monitor=val/loss is not measured: choose "
    "from train/accuracy, train/loss, or raise data.val_size",
    "pool.padding=2": "stage s1: pool.padding must be at most half of kernel_size=2, got 2",
    "pool@stage.s2=avg stage.s2.padding=2": "stage s2: stage.s2.padding must be at most half of",
    "data.crop=28": "data.crop must be at least 0 and less than 28, got 28",
    "readout=attention readout.heads=3": "readout.heads must divide the 64 channels, got 3",
}

HINTS = {
    "pool@stage.s9=avg": "no 'pool@stage.s9' in convnet; there are pool@stage.s1, pool@stage.s2",
    "model=vgg pool@stage.s9=avg": "in vgg; there are pool@stage.s1, pool@stage.s2, pool@stage.s3",
    "model=timm:resnet18 pool@stage.s9=avg": "cnnpool probe timm:resnet18 lists the stages",
    "stage.s2.kernel=3": "choose that too: pool@stage.s2=NAME stage.s2.kernel_size=VALUE",
    "model=resnet18": "model=torchvision:resnet18", "pool.size=3": "did you mean 'pool.kernel_size'?",
    "fit.learning_rate=1": "did you mean 'fit.lr'?", "fit.learn_rate=1": "did you mean 'fit.lr'?",
    "trainer=gpu": "fit.devices=N", "callbacks=a": "did you mean 'callback'?", "logger=wandb": "log=NAME",
    "hydra/sweeper=optuna": "cnnpool train -m hydra/sweeper=optuna", "tags=[a]": "log.tags=[first,second]",
    "-m hydra/launcher=submitit_slurm": "pip install hydra-submitit-launcher",
    "trainer.num_sanity_val_steps=2": "trainer.fast_dev_run=true",
    "+trainer.num_sanity_val_steps=2": "trainer.fast_dev_run=true", "log.tags=[a]": "log=mlflow,wandb",
    "trainer.accelerator=tpu": "one of auto, cpu, gpu, mps",
    "fit.quantisation_bits=1": "choose from fit.",
    "pool.kernel_size=3(": "quote special characters: 'pool.kernel_size='",
    "stage.s2=avg": "a stage's operator is chosen by pool@stage.s2=avg",
    "probe.gradient.sampels=4": "did you mean 'probe.gradient.samples'?",
    "pool.kernal_size=3": "did you mean 'pool.kernel_size'?", "zzz=1": "unknown key 'zzz'; choose from ",
    "pool.p=3": "'pool.p' is an option of pool=aps,gem,lp,max_aps, not of the pool that is chosen",
    "model.norm=false": "'model.norm' is an option of model=allconv, not of the model that is chosen",
}  # fmt: skip


def test_a_wrong_word_is_answered_by_what_there_is(call, in_a_folder):
    for words, hint in HINTS.items():
        error = call.refused(*words.split())
        assert hint in error and error.count(",") < 16, (words, error)
    assert not list(in_a_folder.iterdir())


def test_paths_work_as_people_type_them(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for root in ("~/pics", "/tmp/My Photos (2024)", "/tmp/it's\\'", "a+b=c", "C:\\"):
        (job,) = jobs_of(Request([f"data.root={root}", "hydra.run.dir=outputs/a+fit.max_steps=20"]))
        assert job.settings["data"]["root"] == root.replace("~", str(tmp_path))
        assert job.folder == Path("outputs/a+fit.max_steps=20").absolute() or str(job.folder) == (
            "outputs/a+fit.max_steps=20"
        )
        (again,) = jobs_of(Request(job.overrides))
        assert again.settings["data"] == job.settings["data"]


def test_a_mistake_is_named_as_the_command_line_does_before_torch_is_imported(tmp_path):
    code = f"""
import sys
from cnnpool import cli
for command in {[*EARLY]}:
    try:
        cli.main(["train", *command.split()])
    except SystemExit as stop:
        assert stop.code == 2, (command, stop.code)
    assert "torch" not in sys.modules, command
assert "hydra" in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for message, line in zip(EARLY.values(), done.stderr.splitlines(), strict=True):
        assert line.startswith(f"error: {message}")


@pytest.mark.parametrize("command", LATE)
def test_options_that_do_not_go_together_are_refused_in_one_line_as_the_command_line_names_them(
    command, call
):
    status, _, err = call("train", "data=digits", "fit=smoke", *command.split())
    error = err.splitlines()
    assert status == 2
    assert [line for line in error if line.startswith("error: ")] == error[-1:]
    assert error[-1].startswith(f"error: {LATE[command]}"), error
    assert not list(Path().iterdir())


@pytest.mark.parametrize("sweep", ["pool.stride=2,-1", "pool=max,avg seed=0,1 pool.stride=1,2,3,-1"])
def test_every_job_of_a_sweep_is_checked_before_the_first_folder_is_made(sweep, call, tmp_path):
    said = "error: pool.stride must be a whole number from 1 to 1,024, or two of them, got -1\n"
    assert call.refused("-m", "data=digits", *sweep.split()) == said and not list(tmp_path.iterdir())


def test_an_operator_of_an_installed_package_is_checked_by_its_signature(monkeypatch):
    class Foreign(Pool2d):
        def __init__(self, channels: int, *, fancy: int = 1):
            pass

    class Fixed(Pool2d):
        def __init__(self, channels: int, alpha: float, *, fancy: int = 1):
            pass

    class Named(Pool2d):
        def __init__(self, channels: int, *, name: str = "a"):
            pass

    monkeypatch.setattr(registry, "_foreign", lambda group: {"mine": group} if "operators" in group else {})
    for entry, said in (
        (nn.MaxPool2d, "pool=mine: its class must be derived from cnnpool.pool.Pool2d"),
        (Fixed, "pool=mine: its argument alpha cannot be set: options are keyword-only"),
        (Named, "pool=mine: its argument name cannot be set: .* none called name"),
    ):
        monkeypatch.setattr(registry, "_loaded", lambda point, entry=entry: entry)
        with pytest.raises(ValueError, match=said):
            check.check({**jobs_of(Request())[0].settings, "pool": {"name": "mine"}})
    monkeypatch.setattr(registry, "_loaded", lambda point: Foreign)
    with pytest.raises(
        ValueError, match=r"pool\.kernel_size: mine has no option 'kernel_size'; choose from fancy"
    ):
        jobs_of(Request(["pool.name=mine", "+pool.fancy=2"]))
    settings = {**jobs_of(Request())[0].settings, "pool": {"name": "mine", "fancy": 2}}
    check.check(settings)
    settings["pool"]["fancy"] = "x"
    with pytest.raises(ValueError, match=r"^pool\.fancy must be a whole number, got 'x'$"):
        check.check(settings)
