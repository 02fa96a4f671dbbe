"""Keys of training do what their sentences say, shown by what a run leaves."""

import logging
import math
import os
import re

import pytest
import torch
from proofs import proves
from short_runs import STILL, records, results_of, steps
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.nn import functional as F

import cnnpool
from cnnpool.pool import MaxPool2d
from cnnpool.run_folder.checkpoint import load

RATES = ["callback=learning_rate_monitor", "callback.learning_rate_monitor.logging_interval=step"]
FEW = ["data.limit=192", "data.batch_size=64"]
"""Three steps an epoch."""
STOPPING = ["callback=early_stopping", "fit.epochs=6", *FEW]


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


@pytest.fixture
def watched(monkeypatch):
    """A function: notes ``look(module, x)`` of every forward pass of max pooling."""

    def watch(look):
        seen, kept = set(), MaxPool2d.forward

        def forward(self, x):
            seen.add(look(self, x))
            return kept(self, x)

        monkeypatch.setattr(MaxPool2d, "forward", forward)
        return seen

    return watch


def rates(folder, group=""):
    """The rates that the optimiser had in every step."""
    tag = f"lr-AdamW{group}"
    return [record[tag] for record in records(folder) if tag in record]


@proves("fit.lr", "fit.schedule", "fit.warmup", "callback.learning_rate_monitor.logging_interval")
@pytest.mark.parametrize("schedule", ["one_cycle", "cosine", "constant"])
def test_the_optimiser_has_the_rates_of_the_schedule(run, schedule):
    folder = run(*RATES, *FEW, f"fit.schedule={schedule}", "fit.lr=0.25", "fit.warmup=0.25", "fit.epochs=4")
    total, rise = 12, 3
    expected = []
    for step in range(total):
        done = (step - rise) / (total - rise)
        falling = {"one_cycle": 1 - done, "cosine": (1 + math.cos(math.pi * done)) / 2, "constant": 1.0}
        expected.append(0.25 * ((step + 1) / (rise + 1) if step < rise else falling[schedule]))
    assert rates(folder, "/pg1") == pytest.approx(expected)
    logged = records(folder)
    assert [line["train/learning_rate"] for line in logged if "train/loss" in line] == pytest.approx(expected)


@proves("fit.head_rate", "fit.layer_decay", "fit.max_steps")
def test_layers_have_rates_of_their_own(run):
    folder = run(*RATES, "fit.lr=0.5", "fit.head_rate=10", "fit.layer_decay=0.5", "fit.max_steps=3")
    groups = [rates(folder, f"/pg{number}")[1] for number in range(1, 9)]
    common = groups[-1] / 10
    # Three levels of feature layers and the head, each with a group of weights and one of all others.
    assert groups == pytest.approx(
        [common * each for each in (1 / 8, 1 / 8, 1 / 4, 1 / 4, 1 / 2, 1 / 2, 10, 10)]
    )


@proves("fit.label_smoothing", "seed")
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


@proves("fit.freeze_norm")
def test_frozen_normalisation_keeps_its_statistics_and_weights(run):
    plain, frozen = (
        last(run("fit.lr=0.01", "fit.max_steps=2", *own)) for own in ([], ["fit.freeze_norm=true"])
    )
    counts = [key for key in frozen if key.endswith("num_batches_tracked")]
    assert counts and all(frozen[key] == 0 and plain[key] > 0 for key in counts)
    for key in counts:
        norm = key.removesuffix("num_batches_tracked")
        assert frozen[f"{norm}running_mean"].abs().max() == 0 and frozen[f"{norm}running_var"].min() == 1
        assert (frozen[f"{norm}weight"] == 1).all() and (plain[f"{norm}weight"] != 1).any()
    classifier = cnnpool.classifier(*STILL, "fit.freeze_norm=true")
    # As the Trainer does for ``sync_batchnorm``.
    torch.nn.SyncBatchNorm.convert_sync_batchnorm(classifier.model)
    assert not any(one.training for one in classifier.train().modules() if "Norm" in type(one).__name__)


@proves("fit.recalibrate")
def test_statistics_measured_anew_are_those_of_the_training_images_before_the_first_step(run):
    # Frozen afterwards, so that the end shows the beginning.
    found = last(run("fit.lr=0.01", "fit.recalibrate=true", "fit.freeze_norm=true", "fit.max_steps=1"))
    convolution = cnnpool.classifier(*STILL).model.features[0][0].double()
    with torch.no_grad():
        batches = cnnpool.datamodule("digits", seed=0).train_dataloader()
        maps = [convolution(images.double()).transpose(0, 1).flatten(1) for images, _ in batches]
    for name, of_batches in (("mean", [m.mean(1) for m in maps]), ("var", [m.var(1) for m in maps])):
        wanted = torch.stack(of_batches).mean(0).float()
        assert torch.allclose(found[f"model.features.0.1.running_{name}"], wanted, rtol=1e-3, atol=1e-5)


@proves("fit.freeze")
def test_frozen_levels_keep_their_weights_and_statistics(run):
    folder = run("fit.lr=0.01", "fit.freeze=1", "fit.max_steps=2")
    trained, untrained = last(folder), cnnpool.classifier(*STILL, "fit.freeze=1").state_dict()
    kept = [key for key, value in untrained.items() if torch.equal(trained[key], value)]
    moved = [key for key in untrained if key not in kept]
    assert any("weight" in key for key in kept) and any("num_batches_tracked" in key for key in kept)
    assert "model.classifier.weight" in moved and any("num_batches_tracked" in key for key in moved)


@proves("data.limit_seed")
def test_a_limit_draws_other_images_for_every_seed_and_the_same_for_one_limit_seed():
    def images(**options):
        dataset = cnnpool.datamodule("digits", limit=200, **options).dataset
        return {bytes(image.numpy().tobytes()) for image in dataset.train.images}

    drawn = [images(seed=seed) for seed in range(3)]
    # 200 of 1,221 each: 33 in common by chance.
    assert all(10 < len(a & b) < 70 for i, a in enumerate(drawn) for b in drawn[:i])
    fixed = [images(seed=seed, limit_seed=7) for seed in range(3)]
    # All but those that the validation cut takes, 15 %.
    assert all(len(a & b) > 130 for i, a in enumerate(fixed) for b in fixed[:i])


def test_a_probe_of_rare_epochs_is_in_the_record_once_the_run_ends(run):
    others = [f"~probe.{name}" for name in ("invariance", "equivariance", "aliasing", "cost")]
    few = ["probe.gradient.every_epochs=2", "probe.gradient.samples=8", "fit.epochs=1"]
    folder = run("probe=default", *others, *few)
    assert "gradient/zero_fraction/s1" in (folder / "metrics.jsonl").read_text()


@proves("fit.channels_last", "fit.precision", "fit.deterministic")
@proves("trainer.detect_anomaly", "trainer.inference_mode")
@pytest.mark.parametrize(
    ("asked", "mode"),
    [
        ({"deterministic": "auto", "channels_last": True, "precision": "32-true"}, 2),
        ({"deterministic": "true", "channels_last": False, "precision": "bf16-mixed"}, 2),
        ({"deterministic": "warn", "detect_anomaly": True, "inference_mode": False}, 1),
        ({"deterministic": "false"}, 0),
    ],
)
def test_a_forward_pass_is_computed_as_asked(run, watched, asked, mode):
    def look(module, x):
        last = x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
        modes = torch.is_anomaly_enabled(), torch.is_inference_mode_enabled()
        # A network is tried in training mode before its first step, without gradients.
        if module.training and torch.is_grad_enabled():
            return "train", last, x.dtype, torch.get_deterministic_debug_mode(), *modes
        return ("evaluate", *modes) if not module.training else None

    seen = watched(look)
    flags = {
        f"trainer.{key}" if "mode" in key or "anomaly" in key else f"fit.{key}": value
        for key, value in asked.items()
    }
    words = (f"{key}={str(value).lower()}" for key, value in flags.items())
    folder = run(*words, "fit.max_steps=2", "model.width=8")
    results = results_of(folder)
    assert results["deterministic"] == (mode == 2) and results["epochs"] == 1
    kind = torch.bfloat16 if asked.get("precision") == "bf16-mixed" else torch.float32
    anomaly = asked.get("detect_anomaly", False)
    trained = {one for one in seen if one and one[0] == "train"}
    assert trained == {("train", asked.get("channels_last", True), kind, mode, anomaly, False)}
    inferred = any(one[2] for one in seen if one and one[0] == "evaluate")
    assert inferred == asked.get("inference_mode", True)


@proves("fit.keep_memory", "fit.pictures", "log.tensorboard", "fit.progress")
@proves("trainer.profiler", "trainer.enable_model_summary")
@pytest.mark.parametrize("asked", [True, False])
def test_pictures_bar_profiler_and_summary_are_shown_and_memory_is_kept_where_asked(
    run, capfd, monkeypatch, asked
):
    kept, switch = [], str(asked).lower()
    monkeypatch.setattr("cnnpool.training.keep_memory", lambda: kept.append(True))
    # As Lightning leaves it in a process that logs nothing yet.
    theirs = logging.getLogger("lightning.pytorch")
    for name, value in {"handlers": [logging.StreamHandler()], "propagate": False, "level": 20}.items():
        monkeypatch.setattr(theirs, name, value)
    profiler = ["trainer.profiler=simple", "trainer.enable_model_summary=true"] if asked else []
    keys = ("fit.pictures", "fit.progress", "fit.keep_memory")
    folder = run(*(f"{key}={switch}" for key in keys), "fit.epochs=1", *profiler)
    said = "".join(capfd.readouterr())
    assert [word in said for word in ("it/s", "optimizer_step", "Trainable params")] == [asked] * 3
    assert "GPU available" not in said and said.count("Trainable params") == asked
    # The bars of training and test are wiped at their ends.
    assert len(re.findall(r"\r +\r", said)) == 2 * asked
    assert bool(EventAccumulator(str(folder)).Reload().Tags()["images"]) == bool(kept) == asked


def test_another_number_of_devices_is_another_run(run, command, capfd):
    folder = run("fit.max_steps=1")
    capfd.readouterr()
    words = ("train", *STILL, "fit.max_steps=1", "fit.devices=2", f"hydra.run.dir={folder}")
    assert command(*words) == 2
    assert "fit.devices: 1 -> 2" in capfd.readouterr().err


@pytest.mark.filterwarnings("error")
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
        (["fit.max_steps=9", "trainer.min_epochs=2"], "min_epochs=2 and fit.max_steps=9 contradict"),
        (["trainer.limit_train_batches=0.01"], "is less than a batch of the images (9 batches in all): give"),
        (["trainer.limit_val_batches=0.01"], "a larger share or a smaller data.eval_batch_size"),
        (["fit.accumulate=3"], "data.batch_size=128 must be a multiple of fit.devices x fit.accumulate"),
        ([STOPPING[0], "callback.early_stopping.monitor=val/brier_score"], "mode must be min or max for"),
        (["callback=nosuch"], "no callback/nosuch; choose from early_stopping, learning_rate_monitor"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(run, capfd, words, message):
    run(*words, status=2)
    (line,) = [line for line in capfd.readouterr().err.splitlines() if line.startswith("error: ")]
    assert message in line


@proves("trainer.gradient_clip_val", "trainer.gradient_clip_algorithm")
def test_clipping_limits_the_step(run):
    options = ["fit.optimizer=sgd", "fit.lr=1", "fit.warmup=0", "fit.schedule=constant", "fit.max_steps=1"]
    start = cnnpool.classifier(*STILL, *options).state_dict()

    def length(*more):
        end = last(run(*options, *more))
        moved = [end[key] - start[key] for key in start if "weight" in key or "bias" in key]
        return math.sqrt(sum(float(each.double().square().sum()) for each in moved))

    # Nesterov's first step is 1.9 times the gradient.
    clipped = "trainer.gradient_clip_val=0.001"
    assert length(clipped) == pytest.approx(0.0019, rel=1e-3)
    assert length(clipped, "fit.precision=bf16-mixed") == pytest.approx(0.0019, rel=1e-2)
    run(clipped, "fit.precision=bf16-mixed", "fit.max_steps=1")
    assert length() > 0.01
    # Of each value, where the norm above is of all together.
    by_value = length(clipped, "trainer.gradient_clip_algorithm=value")
    assert 0.0019 * 2 < by_value <= 0.0019 * math.sqrt(sum(each.numel() for each in start.values()))


SGD = ["fit.optimizer=sgd", "fit.lr=0.5", "fit.warmup=0", "fit.schedule=constant", "fit.max_steps=1"]


def weights_after(run, *overrides):
    """The weights before and after a first step of steepest descent."""
    start = cnnpool.classifier(*STILL, *SGD, *overrides).state_dict()
    return start, last(run(*SGD, *overrides))


@proves("fit.weight_decay")
def test_weights_decay_and_biases_do_not(run):
    start, plain = weights_after(run)
    _, decayed = weights_after(run, "fit.weight_decay=0.1")
    for key in (key for key in start if key.endswith(("weight", "bias"))):
        # L2 of 0.1 on weights alone, by Nesterov's first step: 1.9 times the rate.
        share = 0.5 * 1.9 * 0.1 if start[key].dim() > 1 else 0.0
        assert torch.allclose(plain[key] - decayed[key], share * start[key], atol=1e-6), key


@proves("fit.optimizer")
def test_each_optimiser_takes_its_own_first_step(run):
    def step(name):
        options = [f"fit.optimizer={name}", *SGD[1:], "fit.lr=0.01"]
        start, end = cnnpool.classifier(*STILL, *options).state_dict(), last(run(*options))
        return (end["model.features.2.0.weight"] - start["model.features.2.0.weight"]).flatten(1)

    # Adam's first step has the rate's size in every cell; Muon's is orthogonal; another is neither.
    adamw, muon, sgd = step("adamw"), step("muon"), step("sgd")
    assert adamw.abs().median() == pytest.approx(0.01, rel=0.01)
    spread = torch.linalg.svdvals(muon)
    assert spread.max() / spread.min() < 2 < torch.linalg.svdvals(sgd).max() / torch.linalg.svdvals(sgd).min()


@proves("fit.accumulate")
def test_a_batch_in_parts_makes_the_step_of_the_whole(run):
    # Without normalisation, which sees each part alone.
    net = ["model=allconv", "model.norm=false", "model.width=2"]
    (_, whole), (_, parts) = (weights_after(run, *net, f"fit.accumulate={count}") for count in (1, 4))
    assert all(torch.allclose(whole[key], parts[key], atol=1e-6) for key in whole)
    logged = steps(run(*net, "fit.epochs=1", "fit.accumulate=4"))
    assert len(logged) == 9


@proves("fit.epochs", "fit.log_every_steps", "trainer.check_val_every_n_epoch")
def test_losses_and_validations_are_written_every_so_many_steps_and_epochs(run):
    logged = records(run(*FEW, "fit.epochs=3", "fit.log_every_steps=2"))
    assert [line["step"] for line in logged if "train/loss" in line] == [2, 4, 6, 8]
    assert [line["epoch"] for line in logged if "val/accuracy" in line] == [1, 2, 3]
    folder = run(*FEW, "fit.epochs=5", "trainer.check_val_every_n_epoch=2")
    assert [line["epoch"] for line in records(folder) if "val/accuracy" in line] == [2, 4]
    assert "val" not in results_of(folder)
    assert load(folder / "checkpoints" / "best.ckpt")["cnnpool"]["steps"] == 2 * 3


@proves("fit.checkpoint_every_minutes")
def test_within_an_epoch_too_a_run_is_saved(run, monkeypatch):
    saved = []
    from cnnpool.fit import checkpoints

    kept = checkpoints.Checkpoints._save

    def save(self, trainer, module):
        saved.append(trainer.global_step)
        kept(self, trainer, module)

    monkeypatch.setattr(checkpoints.Checkpoints, "_save", save)
    run(*FEW, "fit.epochs=1", "fit.checkpoint_every_minutes=0")
    assert saved == [1, 2, 3]
    saved.clear()
    run(*FEW, "fit.epochs=1", "fit.checkpoint_every_minutes=10")
    assert saved == [3]


@proves("fit.devices", "fit.strategy")
def test_one_process_may_be_ddp_too_and_all_devices_of_a_machine_without_a_gpu_are_one(run):
    names = ("LOCAL_RANK", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")
    before = [os.environ.get(name) for name in names]
    usual, *others = (
        run("fit.max_steps=2", *more) for more in ([], ["fit.strategy=ddp"], ["fit.devices=-1"])
    )
    assert all(steps(usual) == steps(other) for other in others)
    # A process that finds them waits for the others of its group.
    assert [os.environ.get(name) for name in names] == before


@proves("trainer.limit_train_batches", "trainer.limit_val_batches", "trainer.limit_test_batches")
def test_parts_of_the_images_are_used_where_asked(run):
    folder = run("fit.epochs=2", "trainer.limit_train_batches=2", "data.eval_batch_size=50",
                 "trainer.limit_val_batches=1", "trainer.limit_test_batches=0.5")  # fmt: skip
    logged = records(folder)
    planned = load(folder / "checkpoints" / "last.ckpt")["cnnpool"]["total_steps"]
    assert len(steps(folder)) == planned == 4 and results_of(folder)["epochs"] == 2
    # A batch stays one, however many parts it has.
    for limit, count in (("3", 3), ("0.4", 3)):
        parts = run(f"trainer.limit_train_batches={limit}", "fit.accumulate=4", "fit.epochs=1")
        assert len(steps(parts)) == count
    # A share of 50 images is a multiple of 0.02.
    (val,) = {line["val/accuracy"] for line in logged if "val/accuracy" in line}
    assert (val * 50) % 1 == pytest.approx(0, abs=1e-6)
    test = results_of(folder)["test"]
    assert (test["accuracy"] * 200) % 1 == pytest.approx(0, abs=1e-6)
    assert (test["accuracy"] * 360) % 1 != pytest.approx(0, abs=1e-6)


@proves("callback.early_stopping.patience", "callback.early_stopping.monitor", "trainer.min_epochs")
def test_a_run_stops_early_when_nothing_gets_better(run):
    """Its weights stay as they are: no epoch is better than the first."""
    folder = run(*STOPPING, "callback.early_stopping.patience=2")
    assert len(steps(folder)) == 3 * 3
    assert load(folder / "checkpoints" / "best.ckpt")["cnnpool"]["steps"] == 3
    assert len(steps(run(*STOPPING, "callback.early_stopping.patience=1", "trainer.min_epochs=4"))) == 4 * 3
    monitor = ["callback.early_stopping.monitor=train/loss", "callback.early_stopping.mode=min"]
    assert len(steps(run(*STOPPING, *monitor, "callback.early_stopping.patience=6"))) == 6 * 3


@proves("callback.early_stopping.mode", "callback.early_stopping.min_delta")
def test_the_direction_and_the_least_gain_are_as_asked(run):
    monitor = ["callback.early_stopping.patience=1", "callback.early_stopping.monitor=val/loss"]
    learning = [*STOPPING, "fit.lr=0.01", *monitor]
    assert len(steps(run(*learning, "callback.early_stopping.mode=max"))) == 2 * 3
    # Less of a loss is better, unless the mode says otherwise.
    assert len(steps(run(*learning))) > 2 * 3
    hard = ["callback.early_stopping.mode=min", "callback.early_stopping.min_delta=100"]
    assert len(steps(run(*learning, *hard))) == 2 * 3


@proves("trainer.max_time")
def test_a_run_ends_after_its_time(run):
    assert len(steps(run("trainer.max_time=00:00:00:01", "fit.epochs=5000"))) < 1000 * 9


@proves("trainer.num_nodes", "trainer.sync_batchnorm")
def test_machines_and_shared_statistics_are_the_trainers(monkeypatch, in_a_folder):
    from cnnpool.fit import trainer

    seen = []

    class Seen(Exception):
        pass

    def build(**flags):
        seen.append(flags)
        raise Seen

    monkeypatch.setattr(trainer, "Trainer", build)
    with pytest.raises(Seen):
        cnnpool.train(*STILL, "trainer.num_nodes=2", "trainer.sync_batchnorm=true")
    assert seen[0]["num_nodes"] == 2 and seen[0]["sync_batchnorm"] is True
