"""Keys of training do what their sentences say, shown by what a run leaves."""

import json
import math
import os
import subprocess
import sys

import pytest
import torch
from short_runs import STILL, steps
from torch.nn import functional as F

import cnnpool
from cnnpool.pool import MaxPool2d
from cnnpool.run_folder.checkpoint import load

RATES = ["callback=learning_rate_monitor", "callback.learning_rate_monitor.logging_interval=step"]


def last(folder):
    return load(folder / "checkpoints" / "last.ckpt")["state_dict"]


@pytest.fixture
def run(command, in_a_folder):
    """A function that trains by the command line, quickly, in a folder of its own: that folder."""
    count = [0]

    def train(*overrides, status=0):
        count[0] += 1
        folder = in_a_folder / f"trained{count[0]}"
        assert command("train", *STILL, *overrides, f"hydra.run.dir={folder}") == status
        return folder

    return train


def rates(folder, group=""):
    """The rates that the optimiser had in every step."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    tag = f"lr-AdamW{group}"
    return [line[tag] for line in lines if tag in line]


@pytest.mark.parametrize("schedule", ["one_cycle", "cosine", "constant"])
def test_the_optimiser_has_the_rates_of_the_schedule(run, schedule):
    folder = run(*RATES, f"fit.schedule={schedule}", "fit.lr=0.25", "fit.warmup=0.25", "fit.epochs=4")
    total, rise = 36, 9
    expected = []
    for step in range(total):
        done = (step - rise) / (total - rise)
        falling = {"one_cycle": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2, "constant": 1.0}
        expected.append(0.25 * ((step + 1) / (rise + 1) if step < rise else falling[schedule]))
    assert rates(folder, "/pg1") == pytest.approx(expected)
    logged = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["train/learning_rate"] for line in logged if "train/loss" in line] == pytest.approx(expected)


def test_layers_have_rates_of_their_own(run):
    folder = run(*RATES, "fit.lr=0.5", "fit.head_rate=10", "fit.layer_decay=0.5", "fit.max_steps=3")
    groups = [rates(folder, f"/pg{number}")[1] for number in range(1, 9)]
    common = groups[-1] / 10
    # Three levels of feature layers and the head, each with a group of weights and one of all others.
    assert groups == pytest.approx(
        [common * each for each in (1 / 8, 1 / 8, 1 / 4, 1 / 4, 1 / 2, 1 / 2, 10, 10)]
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_the_first_loss_is_that_of_the_seeds_network_on_the_seeds_images(run, smoothing):
    options = ["model.dropout=0", f"fit.label_smoothing={smoothing}", "data.shift=1"]
    logged = steps(run(*options, "seed=5", "fit.max_steps=1"))
    classifier = cnnpool.classifier(*STILL, *options, seed=5)
    images = cnnpool.datamodule("digits", seed=5, shift=1)
    pixels, labels = next(iter(images.train_dataloader()))
    with torch.no_grad():
        shares = classifier.train()(pixels).log_softmax(1)
    wanted = F.one_hot(labels, 10) * (1 - smoothing) + smoothing / 10
    assert logged == pytest.approx([float(-(shares * wanted).sum(1).mean())], rel=1e-5)
    other = next(iter(cnnpool.datamodule("digits", seed=6, shift=1).train_dataloader()))
    assert not torch.equal(other[1], labels)


def test_frozen_normalisation_keeps_its_statistics_and_weights(run):
    plain, frozen = last(run("fit.lr=0.01")), last(run("fit.lr=0.01", "fit.freeze_norm=true"))
    counts = [key for key in frozen if key.endswith("num_batches_tracked")]
    assert counts and all(frozen[key] == 0 and plain[key] > 0 for key in counts)
    for key in counts:
        norm = key.removesuffix("num_batches_tracked")
        assert frozen[f"{norm}running_mean"].abs().max() == 0 and frozen[f"{norm}running_var"].min() == 1
        assert (frozen[f"{norm}weight"] == 1).all() and (plain[f"{norm}weight"] != 1).any()


def test_frozen_levels_keep_their_weights_and_statistics(run):
    folder = run("fit.lr=0.01", "fit.freeze=1")
    trained, untrained = last(folder), cnnpool.classifier(*STILL, "fit.freeze=1").state_dict()
    kept = [key for key, value in untrained.items() if torch.equal(trained[key], value)]
    moved = [key for key in untrained if key not in kept]
    assert any("weight" in key for key in kept) and any("num_batches_tracked" in key for key in kept)
    assert "model.classifier.weight" in moved and any("num_batches_tracked" in key for key in moved)


def test_a_limit_draws_other_images_for_every_seed_and_the_same_for_one_limit_seed():
    def images(**options):
        dataset = cnnpool.datamodule("digits", limit=200, **options).dataset
        return {bytes(image.numpy().tobytes()) for image in dataset.train.images}

    drawn = [images(seed=seed) for seed in range(4)]
    # 200 of 1,221 each: 33 in common by chance.
    assert all(10 < len(a & b) < 70 for i, a in enumerate(drawn) for b in drawn[:i])
    fixed = [images(seed=seed, limit_seed=7) for seed in range(4)]
    # All but those that the validation cut takes, 15 %.
    assert all(len(a & b) > 130 for i, a in enumerate(fixed) for b in fixed[:i])


def test_a_probe_of_rare_epochs_is_in_the_record_once_the_run_ends(run):
    others = [f"~probe.{name}" for name in ("invariance", "equivariance", "aliasing", "cost")]
    few = ["probe.gradient.every_epochs=5", "probe.gradient.samples=8"]
    folder = run("probe=default", *others, *few)
    assert "gradient/zero_fraction/s1" in (folder / "metrics.jsonl").read_text()


@pytest.mark.parametrize("channels_last", [True, False])
def test_the_memory_format_is_that_of_images_and_activations(run, monkeypatch, channels_last):
    seen = []
    kept = MaxPool2d.forward

    def forward(self, x):
        if self.training:
            seen.append(x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous())
        return kept(self, x)

    monkeypatch.setattr(MaxPool2d, "forward", forward)
    run(f"fit.channels_last={str(channels_last).lower()}", "fit.max_steps=2", "model.width=8")
    assert seen and all(each == channels_last for each in seen)


def test_another_number_of_devices_is_another_run(run, command, capfd):
    folder = run("fit.max_steps=1")
    capfd.readouterr()
    words = ("train", *STILL, "fit.max_steps=1", "fit.devices=2", f"hydra.run.dir={folder}")
    assert command(*words) == 2
    assert "fit.devices: 1 -> 2" in capfd.readouterr().err


def test_all_devices_of_a_machine_without_a_gpu_are_one(run):
    one, every = (run("fit.max_steps=3", f"fit.devices={count}") for count in (1, -1))
    assert steps(one) == steps(every)


def test_a_machine_with_srun_gets_no_warning(run, in_a_folder, monkeypatch, capfd):
    (in_a_folder / "bin").mkdir()
    srun = in_a_folder / "bin" / "srun"
    srun.write_text("#!/bin/sh\n")
    srun.chmod(0o755)
    monkeypatch.setenv("PATH", f"{srun.parent}{os.pathsep}{os.environ['PATH']}")
    run("fit.max_steps=1")
    assert "srun" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trainer.max_epochs=3"], "trainer.max_epochs: use fit.epochs"),
        (["trainer.logger=false"], "trainer.logger: choose one by log=NAME"),
        (["trainer.gradient_clip_val=-1"], "trainer.gradient_clip_val must be a number above 0"),
        (["fit.devices=0"], "fit.devices must be -1, or a whole number from 1 to 1,024, got 0"),
        (["fit.accumulate=3"], "data.batch_size=128 must be a multiple of fit.devices x fit.accumulate"),
        (["callback=nosuch"], "no callback/nosuch; choose from early_stopping, learning_rate_monitor"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(run, capfd, words, message):
    run(*words, status=2)
    (line,) = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error: ")]
    assert message in line


@pytest.mark.slow
def test_a_plain_run_loads_no_way_to_run_jobs_elsewhere(in_a_folder):
    code = (
        "import sys\nfrom cnnpool import cli\ntry: cli.main(sys.argv[1:])\nexcept SystemExit: pass\n"
        "print(sorted(name for name in sys.modules if name.startswith('cnnpool.launch.run')))"
    )
    words = ["train", *STILL, "fit.max_steps=1"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "['cnnpool.launch.run_here', 'cnnpool.launch.run_job']", (
        done.stderr
    )


def test_clipping_limits_the_step(run):
    options = ["fit.optimizer=sgd", "fit.lr=1", "fit.warmup=0", "fit.schedule=constant", "fit.max_steps=1"]
    start = cnnpool.classifier(*STILL, *options).state_dict()

    def length(*more):
        end = last(run(*options, *more))
        moved = [end[key] - start[key] for key in start if "weight" in key or "bias" in key]
        return math.sqrt(sum(float(each.double().square().sum()) for each in moved))

    # Nesterov's first step is 1.9 times the gradient.
    assert length("trainer.gradient_clip_val=0.001") == pytest.approx(0.0019, rel=1e-3)
    assert length() > 0.01
