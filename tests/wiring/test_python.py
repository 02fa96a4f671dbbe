"""The doors from Python: training, loading, one's own Trainer."""

import logging
import random
import shutil
import signal
import threading
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hydra import initialize
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.utils import JobRuntime
from hydra.version import getbase
from lightning.pytorch.callbacks import BasePredictionWriter, EarlyStopping
from PIL import Image
from short_runs import quiet_trainer

import cnnpool
from cnnpool.launch.python import lines
from cnnpool.run_folder import status
from cnnpool.run_folder.checkpoint import load
from cnnpool.system.signals import Stopped

QUICK = ["model.width=4", "fit.epochs=2", "fit.precision=32-true", "fit.pictures=false", "probe=none"]
pytestmark = [
    # Of Lightning: a loader without workers, a loss that is logged at the run's own intervals.
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*smaller than the logging interval"),
    pytest.mark.filterwarnings("ignore:.*is deprecated"),
]


quiet = partial(quiet_trainer, num_sanity_val_steps=0)


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    return folder, cnnpool.train(*QUICK, "data.shift=1", f"hydra.run.dir={folder}")


@pytest.fixture
def trained(once, in_a_folder):
    """The results of a run, of which ``run`` is a copy."""
    folder, results = once
    shutil.copytree(folder, "run")
    return results


def test_a_training_from_python_is_that_of_the_command(trained, command, tmp_path):
    assert command("train", *QUICK, "data.shift=1", "hydra.run.dir=other") == 0
    weights = [load(tmp_path / name / "checkpoints" / "last.ckpt")["state_dict"] for name in ("run", "other")]
    assert all(torch.equal(weights[0][key], value) for key, value in weights[1].items())
    ends = [vars(status.read(tmp_path / name)) for name in ("run", "other")]
    assert ends[0].items() - ends[1].items() <= {("time", ends[0]["time"])} and ends[0]["state"] == "done"
    assert trained.accuracy == cnnpool.train(*QUICK, "data.shift=1", "hydra.run.dir=run").accuracy
    with pytest.raises(ValueError, match=r"fit\.lr must be a number above 0"):
        cnnpool.train("fit.lr=-1")


def test_ones_own_trainer_gives_the_bits_of_the_command(trained, tmp_path):
    classifier = cnnpool.classifier(*QUICK, "data.shift=1", seed=0)
    torch.use_deterministic_algorithms(True)
    try:
        quiet(max_epochs=2).fit(classifier, datamodule=cnnpool.datamodule("digits", shift=1, seed=0))
    finally:
        torch.use_deterministic_algorithms(False)
    weights = load(tmp_path / "run" / "checkpoints" / "last.ckpt")["state_dict"]
    assert all(torch.equal(classifier.state_dict()[key], value) for key, value in weights.items())


def test_early_stopping_and_clipping_work_in_ones_own_trainer_and_by_name(in_a_folder):
    still = [*QUICK, "data.limit=128", "fit.epochs=20", "fit.lr=1e-30"]
    classifier = cnnpool.classifier(*still)
    trainer = quiet(
        max_epochs=20,
        gradient_clip_val=0.5,
        callbacks=[EarlyStopping("val/accuracy", mode="max", patience=2)],
    )
    trainer.fit(classifier, datamodule=cnnpool.datamodule("digits", limit=128))
    assert trainer.current_epoch < 20 and trainer.callback_metrics.keys() == {
        "train/accuracy", "train/loss", "val/accuracy", "val/loss"
    }  # fmt: skip
    results = cnnpool.train(
        *still, "callback=early_stopping", "callback.early_stopping.patience=2",
        "trainer.gradient_clip_val=0.5",
    )  # fmt: skip
    assert results.epochs == trainer.current_epoch


def test_a_checkpoint_is_loaded_without_further_arguments_and_predicts(trained, tmp_path):
    drawn = torch.random.get_rng_state()
    classifier = cnnpool.load("run")
    assert not classifier.training and torch.equal(torch.random.get_rng_state(), drawn)
    for place in ({"cuda:0": "cpu"}, lambda storage, device: storage, None, torch.device("cpu")):
        again = type(classifier).load_from_checkpoint("run/checkpoints/last.ckpt", map_location=place)
        assert all(map(torch.equal, again.state_dict().values(), classifier.state_dict().values()))
    with pytest.raises(ValueError, match=r"^cnnpool\.load has no option 'modell'; did you mean 'model'\?$"):
        cnnpool.load("run", modell=None)
    images = cnnpool.datamodule("digits")
    batches = quiet().predict(classifier, images)
    labels = images.dataset.test.labels
    right = (torch.cat(batches).argmax(1) == labels).double().mean()
    assert float(right) == pytest.approx(trained.accuracy)
    for _ in range(2):
        [said] = quiet().test(classifier, images, verbose=False)
        assert said["test/accuracy"] == pytest.approx(trained.accuracy)
        assert len(classifier.correct) == len(labels)
    pixels = images.dataset.test.images[0]
    Image.fromarray(pixels[0].numpy()).save("digit.png")
    turned, exif = Image.fromarray(np.ascontiguousarray(pixels[0].numpy()[::-1, ::-1])), Image.Exif()
    exif[0x0112] = 3
    turned.save("turned.png", exif=exif)
    assert classifier.predict("turned.png") == classifier.predict("digit.png")
    by_values, by_file = classifier.predict(pixels / 255), classifier.predict("digit.png")
    assert by_values == by_file and by_values.probability == pytest.approx(float(batches[0][0].max()))
    assert by_values.name == images.dataset.classes[int(batches[0][0].argmax())]
    # An image of another size is resized and cut: a plain one stays plain.
    assert classifier.predict(torch.full((1, 20, 16), 0.5)) == classifier.predict(torch.full((1, 8, 8), 0.5))
    file, grey = Path("digit.png"), pixels[0].numpy()
    for one in (
        file,
        file.read_bytes(),
        Image.fromarray(grey),
        grey,
        grey[..., None],
        np.stack([grey] * 3, -1),
    ):
        assert classifier.predict(one) == by_file
    for one in (pixels, pixels.double() / 255, grey / 255, (grey / 255)[..., None]):
        assert classifier.predict(one) == pytest.approx(by_values)
    some = images.dataset.test.images[:3]
    each = [classifier.predict(one) for one in some]
    for several in (some, some.numpy().transpose(0, 2, 3, 1), list(some), [*some.numpy()[:, 0]]):
        assert [said.name for said in classifier.predict(several)] == [said.name for said in each]
    assert classifier.predict([]) == []
    for one, wrong in (
        (pixels.float(), r"numbers of 0 to 1, not normalised, got 0 to \d+"),
        (pixels.long(), "torch.int64"),
        (pixels[0] / 255, r"an image is a tensor \(C, H, W\), got \(28, 28\)"),
        (5, "a file, a PIL image, .*got int"),
        (np.zeros((8, 8, 2), np.uint8), "C 1, 3 or 4"),
        (pixels * torch.nan, "got nan to nan"),
    ):
        with pytest.raises(ValueError, match=wrong):
            classifier.predict(one)
    with pytest.raises(ValueError, match=r"cannot read run/results\.json: not an image of BMP, "):
        classifier.predict("run/results.json")
    with pytest.raises(ValueError, match="the image has 3 channels, and the network takes 1"):
        classifier.predict(pixels.expand(3, -1, -1) / 255)
    assert cnnpool.load(tmp_path / "run" / "checkpoints" / "best.ckpt").steps > 0
    with pytest.raises(ValueError, match="written before version"):
        torch.save({"state_dict": {}}, "old.ckpt")
        cnnpool.load("old.ckpt")


def test_how_a_training_from_python_ended_stands_in_its_folder(in_a_folder, monkeypatch):
    here = in_a_folder / "run"

    def end(*_):
        states.append(status.read(here).state)
        raise error

    states = []
    monkeypatch.setattr("cnnpool.training.train", end)
    for error, after in (
        (ValueError("a mistake"), None),
        (RuntimeError("broken"), ("failed", "RuntimeError: broken", 1)),
        (Stopped(15), ("stopped", "stopped by SIGTERM; rerun the same command to resume", 143)),
    ):
        with pytest.raises(type(error)):
            cnnpool.train(*QUICK, "hydra.run.dir=run")
        now = status.read(here)
        assert (now and (now.state, now.error, now.status)) == after and here.exists() == bool(after)
    assert states == ["running"] * 3


def test_a_seed_is_given_in_any_form_and_each_thread_draws_by_its_own():
    def first(classifier):
        return next(classifier.parameters()).flatten()[:3].tolist()

    def draw(seed):
        drawn[seed] = first(cnnpool.classifier(*QUICK, {"seed": seed}))

    plain = {seed: first(cnnpool.classifier(*QUICK, seed=seed)) for seed in (0, 3)}
    assert (
        plain[0]
        == first(cnnpool.classifier(*QUICK))
        != plain[3]
        == first(cnnpool.classifier(*QUICK, "seed=3"))
    )
    drawn = {}
    threads = [threading.Thread(target=draw, args=(seed,)) for seed in plain]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert drawn == plain


def test_a_script_under_hydra_keeps_its_own():
    with initialize(config_path=None, job_name="mine", version_base="1.2"):
        hydra, config, version = GlobalHydra.instance(), HydraConfig.instance(), getbase()
        mine, config.cfg = hydra.hydra, object()
        before = config.cfg
        try:
            assert cnnpool.classifier(*QUICK, "seed=3").seed == 3
            with pytest.raises(ValueError, match=r"fit\.lr must be a number above 0"):
                cnnpool.classifier(*QUICK, "fit.lr=-1")
            assert GlobalHydra.instance() is hydra and hydra.hydra is mine
            assert HydraConfig.instance().cfg is before and getbase() == version
            assert JobRuntime().get("name") == "mine"
        finally:
            config.cfg = None
    cnnpool.classifier(*QUICK)
    assert not GlobalHydra.instance().is_initialized() and not HydraConfig.initialized()


def test_paths_are_objects_or_text_and_begin_at_home(photographed, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    given = {"out": "~/runs", "data": {"name": "digits", "root": Path("~/photos")}, "hydra.run.dir": "~"}
    home = [
        f"out={tmp_path}/runs",
        "data=digits",
        f"data.root={tmp_path}/photos",
        f"hydra.run.dir={tmp_path}",
    ]
    assert list(lines(given)) == home
    folder, options = photographed("photos", 20, 8, 8), {"size": 8, "test_size": 0.5}
    sha256s = {
        cnnpool.datamodule("image_folder", root=root, **options).dataset.sha256
        for root in (folder, str(folder), "~/photos")
    }
    assert len(sha256s) == 1
    with pytest.raises(Exception, match=str(tmp_path / "nothing.ckpt")):
        cnnpool.load("~/nothing.ckpt")


@pytest.mark.filterwarnings("ignore:You requested to overfit", "ignore:You defined a `validation_step`")
def test_loaders_work_wherever_a_trainer_makes_them_anew():
    classifier, images = cnnpool.classifier(*QUICK), cnnpool.datamodule("digits", limit=256, batch_size=64)
    whole = torch.cat(quiet().predict(classifier, images))
    with torch.no_grad():
        plain = [classifier.eval()(batch).softmax(1) for batch, _ in images.test_dataloader()]
    classifier.train()
    noted = Noted("batch")
    loaders = [images.val_dataloader(), images.test_dataloader()]
    ours = quiet(callbacks=[noted]).predict(classifier, loaders)[1]
    assert torch.equal(torch.cat(ours), whole) and torch.equal(torch.cat(plain), whole)
    assert noted.places == [*range(len(images.dataset.val)), *range(len(images.dataset.test))]
    first = next(iter(images.dataset.plain_loader(images.dataset.train, batch_size=64)))
    seen = []
    classifier.on_train_batch_end = lambda outputs, batch, number: seen.append(batch)
    for given in ({"datamodule": images}, {"train_dataloaders": images.train_dataloader()}):
        quiet(max_epochs=2, overfit_batches=1).fit(classifier, **given)
        assert len(seen) == 2 and all(map(torch.equal, first * 2, seen[0] + seen[1]))
        seen.clear()
        flags = {"use_distributed_sampler": False, "reload_dataloaders_every_n_epochs": 1}
        quiet(max_epochs=2, **flags).fit(classifier, **given)
        assert len(seen) == 8 and not torch.equal(seen[0][0], seen[4][0])
        seen.clear()


class Noted(BasePredictionWriter):
    """Notes the places in the data set that a Trainer hands on with predictions."""

    def __init__(self, interval):
        super().__init__(interval)
        self.places = []

    def write_on_batch_end(self, trainer, module, predicted, places, *rest):
        self.places += places


def test_a_training_from_python_leaves_the_process_as_it_was(in_a_folder):
    def loggers():
        known = [one for one in logging.root.manager.loggerDict.values() if isinstance(one, logging.Logger)]
        return sorted((one for one in known if one.name.startswith("lightning.")), key=lambda one: one.name)

    def state():
        return (
            warnings.filters[:],
            threading.active_count(), torch.get_num_threads(), torch.get_deterministic_debug_mode(),
            torch.random.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist(),
            signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM),
            [(one.name, one.level, one.propagate, one.handlers[:]) for one in loggers()]
        )  # fmt: skip

    before = state()
    cnnpool.train(*QUICK, "fit.max_steps=2")
    cnnpool.classifier(*QUICK)
    assert state() == before
