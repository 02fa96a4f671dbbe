"""Every epoch sees the images in another order and otherwise augmented, through the command line."""

import signal
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import torch
from short_runs import STILL, steps

from cnnpool.run_folder.checkpoint import SCHEMA, load


@pytest.fixture
def photographs(photographed):
    """A folder of 60 images in two classes."""
    photographed("photographs", 60, 16, 16)
    options = ["data=image_folder", "data.root=photographs", "data.size=16", "data.batch_size=8"]
    return [*options, "data.flip=true"]


def assert_epochs_differ(losses, epochs):
    each = np.array(losses).reshape(epochs, -1)
    assert each.shape[1] > 1
    # Other images in every step, and not the same ones in another order either.
    for one in range(epochs):
        for other in range(one):
            assert not set(each[one]) & set(each[other])


def test_epochs_of_digits_differ(losses):
    assert_epochs_differ(losses("data.shift=2", "fit.epochs=3"), 3)


def test_every_training_image_is_seen(losses):
    # Without augmentation and normalisation a batch's loss is the mean over its images, whatever the order:
    # nine batches of 128 leave 69 of 1,221 images out of an epoch, others in each.
    plain = losses("model=allconv", "model.norm=false", "fit.epochs=3")
    means = np.array(plain).reshape(3, 9).mean(1)
    assert len(set(means.round(6))) == 3


@pytest.mark.parametrize("stream", ["false", "true"])
def test_epochs_of_an_image_folder_differ(losses, photographs, stream):
    assert_epochs_differ(losses(*photographs, f"data.stream={stream}", "fit.epochs=3"), 3)


@pytest.mark.slow
def test_epochs_of_two_processes_differ(losses):
    assert_epochs_differ(losses("data.shift=2", "fit.epochs=3", "fit.devices=2"), 3)


KILLED = """
import os, signal, sys
from cnnpool import cli
from cnnpool.fit.checkpoints import Checkpoints
kept = Checkpoints.on_train_batch_end
def then(self, trainer, module, *rest):
    kept(self, trainer, module, *rest)
    if module.steps == 8:
        os.kill(os.getpid(), signal.SIGKILL)
Checkpoints.on_train_batch_end = then
cli.main(["train", *sys.argv[1:]])
"""


def test_a_run_killed_in_its_third_epoch_goes_on_to_the_same_bits(command, tmp_path):
    options = ["data=digits", "data.limit=192", "data.batch_size=64", "data.shift=2", "model.width=2"]
    options += ["probe=none", "fit.epochs=4", "fit.checkpoint_every_minutes=0", "fit.log_every_steps=1"]
    options += ["fit.pictures=false"]
    killed = [sys.executable, "-c", KILLED, *options, "hydra.run.dir=killed"]
    assert subprocess.run(killed, cwd=tmp_path, capture_output=True).returncode == -signal.SIGKILL
    # Three steps an epoch.
    assert 6 < load(tmp_path / "killed" / "checkpoints" / "last.ckpt")["cnnpool"]["steps"] < 9
    assert command("train", *options, "hydra.run.dir=killed") == 0
    assert command("train", *options, "hydra.run.dir=whole") == 0
    assert steps(tmp_path / "killed") == steps(tmp_path / "whole")
    weights = [
        load(tmp_path / name / "checkpoints" / "last.ckpt")["state_dict"] for name in ("killed", "whole")
    ]
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[1])


def test_a_checkpoint_of_the_time_of_repeated_epochs_is_refused(command, tmp_path, capfd):
    options = [*STILL, "fit.epochs=2", "hydra.run.dir=run"]
    assert command("train", *options) == 0
    (tmp_path / "run" / "results.json").unlink()
    path = tmp_path / "run" / "checkpoints" / "last.ckpt"
    content = load(path)
    content["cnnpool"]["schema"] = SCHEMA - 1
    torch.save(content, path)
    capfd.readouterr()
    assert command("train", *options) == 2
    said = capfd.readouterr().err
    assert len(said.splitlines()) == 1 and "schema 2" in said and "delete it to train anew" in said


def test_an_image_is_augmented_anew_in_every_epoch(losses):
    # All images in one batch: their order alone changes no more than rounding does.
    whole = ["data.limit=64", "data.batch_size=64", "data.val_size=0", "fit.epochs=3"]
    plain, shifted = losses(*whole), losses(*whole, "data.shift=2")
    assert plain == pytest.approx([plain[0]] * 3, rel=1e-5)
    assert min(abs(one - other) for one, other in pairwise(shifted)) > 1e-4
