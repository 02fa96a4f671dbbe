import json
import re
from itertools import count
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch.plugins.precision import MixedPrecision
from short_runs import quiet_trainer
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import cnnpool
from cnnpool import data
from cnnpool.fit import Classifier, DivergedError, trainer
from cnnpool.fit.trainer import build_trainer
from cnnpool.recipe import Recipe
from cnnpool.run_folder import routing
from cnnpool.run_folder.results import read, unpacked
from cnnpool.system.hardware import fast_precision


@pytest.fixture(scope="module")
def finished(runs, tmp_path_factory):
    out = tmp_path_factory.mktemp("run")
    results, net = runs.run(out, epochs=3, pictures=True, probes=runs.probes)
    return out, results, net


def test_results_hold_every_section_of_the_schema(finished):
    out, results, _ = finished
    written = json.loads((out / "results.json").read_text())
    assert read(out) == results
    assert written["schema"] == 1
    assert written["gradient"].keys() == {"s1", "s2"}
    assert {"zero_fraction", "coverage", "tied_windows"} <= written["gradient"]["s1"].keys()
    assert written["invariance"]["stages"]["s2"]["relative_change"].keys() == {"1", "2"}
    assert {"parameters", "flops", "saved_bytes", "train_images_per_s", "wall_s"} <= written["cost"].keys()
    assert written["epochs"] == 3 and written["steps"] == 12
    assert 0 <= written["test"]["accuracy"] <= 1 and 0 <= written["val"]["accuracy"] <= 1
    assert {"python", "torch", "cnnpool", "commit", "dirty", "device", "threads"} <= written[
        "environment"
    ].keys()
    assert len(written["data_sha256"]) == 64 and written["finished"].endswith("+00:00")


def test_the_routing_of_a_few_test_images_is_written(finished):
    written = routing.read(finished[0])
    assert written.shares.keys() == {"s1", "s2"} and len(written.images) > 1
    # Of max pooling some inputs get no gradient, and some get one in some channels.
    assert all(0 < share.mean() < 1 for share in written.shares.values())


def test_the_test_accuracy_is_that_of_the_final_weights_over_all_test_images(finished):
    _, results, net = finished
    dataset = data.build("digits", seed=0, limit=256, batch_size=64, shift=1)
    net.eval()
    half = fast_precision() == "bf16-mixed"
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=half):
        right = torch.cat(
            [net(images).argmax(1) == labels for images, labels in dataset.plain_loader(dataset.test)]
        )
    assert len(right) == len(dataset.test)
    assert results.accuracy == pytest.approx(right.double().mean().item())
    assert unpacked(results.correct).tolist() == right.tolist()


def test_metrics_are_one_json_object_a_line(finished):
    out, results, _ = finished
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    epochs = [line for line in lines if "val/accuracy" in line]
    assert [line["epoch"] for line in epochs] == [1, 2, 3]
    assert epochs[-1]["val/accuracy"] == results.measured["val"]["accuracy"]
    assert [line["step"] for line in lines if "train/loss" in line] == [2, 4, 6, 8, 10, 12]
    assert lines[-1]["test/accuracy"] == results.accuracy


def test_tensorboard_shows_the_documented_tags_pictures_and_pages(runs, finished):
    out = finished[0]
    events = EventAccumulator(str(out), size_guidance={"scalars": 0}).Reload()
    tags = events.Tags()
    expected = {
        "train/loss", "val/accuracy", "test/accuracy", "gradient/zero_fraction/s1", "gradient/coverage/s2",
        "invariance/relative_change_1px/s1", "invariance/consistency/distinct", "cost/parameters",
        "aliasing/alias_energy_ratio/s1",
    }  # fmt: skip
    assert expected <= set(tags["scalars"])
    # Groups are sorted by name: the headlines come first, in the order in which they are read.
    assert sorted(tags["scalars"])[:7] == [
        f"a_first_look/{tag}"
        for tag in (
            *("accuracy/test", "accuracy/train", "accuracy/val"),
            *("gradient/zero_fraction/s1", "gradient/zero_fraction/s2"),
            *("invariance/consistency/aps_cifar", "invariance/consistency/distinct"),
        )
    ]
    said = events.SummaryMetadata("a_first_look/gradient/zero_fraction/s1").summary_description
    assert said == events.SummaryMetadata("gradient/zero_fraction/s1").summary_description != ""
    # Numbers for files alone have no chart; learning curves have, whatever tables show.
    assert not {"aliasing/nopass/s1", "gradient/hoyer/s1", "cost/load"} & set(tags["scalars"])
    assert {"train/learning_rate", "val/loss", "epoch/train_loss"} <= set(tags["scalars"])
    views = "gradient_routing", "receptive_field", "shifted_accuracy", "winners"
    views += "worked_example/gap", "worked_example/max"
    assert sorted(tags["images"]) == [f"view/{name}" for name in views]
    assert set(tags["histograms"]) == {"gradient/at_input/s1", "gradient/at_input/s2"}
    assert {"configuration/text_summary", "results/text_summary"} <= set(tags["tensors"])
    said = events.Tensors("configuration/text_summary")[0].tensor_proto.string_val[0].decode().splitlines()
    # Of both stages the operator is the run's own.
    assert [line.split("**")[1] for line in said] == ["pool", "readout", "model", "data", "fit", "seed"]
    assert said[0] == "- **pool**: name=max" and "max\\_steps=" in said[4]
    assert "custom_scalars__config__" in tags["tensors"]
    assert len(events.Scalars("gradient/zero_fraction/s1")) == 3
    plugin = events.PluginTagToContent("hparams")
    start = plugin["_hparams_/session_start_info"]
    session = HParamsPluginData.FromString(start).session_start_info
    assert {"pool", "readout", "model", "data", "model.width", "fit.epochs"} <= set(session.hparams)
    # A row averages over seeds.
    assert "seed" not in session.hparams and session.hparams["pool"].string_value == "max"
    # Without columns of its own, TensorBoard shows first the settings in which runs differ.
    assert "_hparams_/experiment" not in plugin
    assert session.group_name == "max (digits/convnet)"
    [event] = events.Tensors("custom_scalars__config__")
    pages = Layout.FromString(event.tensor_proto.string_val[0]).category
    assert [page.title for page in pages] == ["accuracy", "gradient", "invariance"]
    charts = [re.compile(tag) for page in pages for chart in page.chart for tag in chart.multiline.tag]
    assert all(any(chart.search(tag) for tag in tags["scalars"]) for chart in charts)
    assert pages[0].chart[0].title == "val/accuracy"


def test_the_same_seed_gives_the_same_bits_whatever_is_logged(runs, finished, tmp_path):
    _, results, net = finished
    again, other = runs.run(tmp_path, epochs=3, probes={}, log_every_steps=50)
    assert runs.same(net, other)
    assert again.measured["test"] == results.measured["test"]


def test_a_loss_that_is_not_finite_stops_the_run_and_names_the_step(runs, tmp_path, monkeypatch):
    with pytest.raises(DivergedError, match=r"the loss became (nan|inf) at epoch 0, step \d+ .*fit.lr"):
        runs.run(tmp_path, lr=1e30, optimizer="sgd", warmup=0.0)
    # At once, however seldom a loss is logged.
    with pytest.raises(DivergedError, match=r"the loss became (nan|inf) at epoch 0, step [12] "):
        runs.run(tmp_path, lr=1e30, optimizer="sgd", warmup=0.0, log_every_steps=1000)
    # Of images that are not trained on, after the last step.
    with pytest.raises(
        DivergedError, match=r"the loss became (nan|inf) before step 1: lower fit.lr, or mend the network"
    ):
        runs.run(tmp_path / "short", lr=1e30, optimizer="sgd", warmup=0.0, max_steps=1)
    # On a GPU no step waits for it: when it is next logged.
    monkeypatch.setattr(torch.Tensor, "isfinite", lambda self: torch.tensor(True))
    with pytest.raises(DivergedError, match=r"the loss became (nan|inf) at epoch 0, step 3 "):
        runs.run(tmp_path, lr=1e30, optimizer="sgd", warmup=0.0, log_every_steps=3)
    assert not [*tmp_path.rglob("results.json")]


def test_a_picture_that_cannot_be_drawn_does_not_cost_the_results(runs, tmp_path, monkeypatch, caplog):
    def fails(name):
        raise TypeError("no example")

    monkeypatch.setattr("cnnpool.fit.results.example", fails)
    runs.run(tmp_path, probes={}, pictures=True, max_steps=1)
    assert "not every picture is drawn: no example" in caplog.text
    assert [*tmp_path.rglob("results.json")]


def test_half_precision_of_a_gpu_scales_its_losses(monkeypatch):
    # As on a machine with one: on a CPU Lightning takes bf16 instead.
    monkeypatch.setattr("lightning.pytorch.accelerators.cuda.num_cuda_devices", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    plugin = build_trainer(Recipe(precision="16-mixed"), {}, [], []).precision_plugin
    assert isinstance(plugin, MixedPrecision) and plugin.precision == "16-mixed"
    assert plugin.scaler is not None and plugin.scaler.is_enabled()


def test_an_operation_that_does_not_repeat_is_refused_on_a_cpu():
    build_trainer(Recipe(), {"accelerator": "cpu"}, [], [])
    assert torch.get_deterministic_debug_mode() == 2


def test_a_run_without_validation_that_ends_within_its_first_epoch_keeps_its_last_checkpoint(runs, tmp_path):
    results, _ = runs.run(tmp_path, max_steps=1, limit=128, images={"val_size": 0}, probes={})
    assert "val" not in results.measured
    assert results.steps == results.epochs == 1
    assert (tmp_path / "checkpoints" / "best.ckpt").exists()


def test_a_long_epoch_says_in_a_log_how_far_it_is(runs, tmp_path, monkeypatch, caplog):
    # A clock of one second a call: from the start of each epoch on the third batch is the first to be late.
    monkeypatch.setattr(trainer, "LINE_S", 2.5)
    monkeypatch.setattr(trainer, "time", SimpleNamespace(monotonic=count().__next__))
    monkeypatch.setattr("cnnpool.fit.classifier.time", SimpleNamespace(perf_counter=count().__next__))
    with caplog.at_level("INFO"):
        runs.run(tmp_path, probes={}, progress="auto", lr=1e-30)
    said = [line.strip() for line in caplog.messages if " batches (" in line]
    assert said == [f"epoch {epoch}/2   3 of 4 batches (75 %)" for epoch in (1, 2)]
    assert "the network learned nothing useful" in caplog.text
    head, *rows = [line for line in caplog.messages if line.endswith((" time", " s"))]
    assert head.split() == ["train", "loss", "train", "accuracy", "val", "loss", "val", "accuracy", "time"]
    assert len(rows) == 2 and all(len(row) == len(head) and row.endswith(" 1.0 s") for row in rows)


@pytest.mark.filterwarnings("ignore:.*is deprecated", "ignore:.*does not have many workers")
def test_a_network_of_ones_own_trains_on_any_loader_and_is_needed_to_load_it(tmp_path):
    network = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    loader = DataLoader(TensorDataset(torch.rand(8, 1, 2, 2), torch.arange(8) % 2), batch_size=2)
    classifier, theirs = Classifier(model=network), quiet_trainer(max_epochs=3)
    theirs.fit(classifier, loader, loader)
    assert classifier.total_steps == classifier.steps == 12
    digits, counted = cnnpool.datamodule("digits", limit=256), quiet_trainer(max_steps=3)
    counted.fit(given := cnnpool.classifier("pool=max", "model.width=4"), datamodule=digits)
    assert given.total_steps == 3
    quiet_trainer(max_epochs=1, accumulate_grad_batches=3).fit(given, datamodule=digits)
    # Those of the first Trainer are no steps of the second.
    assert given.steps == given.total_steps == -(-given.trainer.num_training_batches // 3)
    limited = cnnpool.classifier("pool=max", "model.width=4", "fit.max_steps=2")
    quiet_trainer(max_epochs=2).fit(limited, datamodule=digits)
    assert limited.total_steps == limited.steps == 2
    with pytest.raises(ValueError, match="give the Trainer max_epochs or max_steps"):
        quiet_trainer(max_epochs=-1, max_time="00:00:00:01").fit(given, datamodule=digits)
    theirs.save_checkpoint(tmp_path / "own.ckpt")
    with pytest.raises(ValueError, match="was made from a module object: pass that as model="):
        Classifier.load_from_checkpoint(tmp_path / "own.ckpt")
    loaded = Classifier.load_from_checkpoint(tmp_path / "own.ckpt", model=network.train())
    assert not loaded.training and not network.training
    with pytest.raises(ValueError, match="does not know how its images are normalised: give data="):
        loaded.predict(torch.rand(1, 2, 2))


@pytest.mark.slow
def test_a_published_network_as_it_is_gets_its_pictures(runs, tmp_path, caplog):
    options = {
        "operator": "keep",
        "readout": "keep",
        "model": {"name": "torchvision", "arch": "squeezenet1_1"},
    }
    with caplog.at_level("INFO"):
        runs.run(tmp_path, **options, images={"size": 32}, probes={}, pictures=True, max_steps=1)
    assert "fit.max_steps=1 ends the training in epoch 1 of 2" in caplog.text
    events = EventAccumulator(str(tmp_path)).Reload()
    assert "view/gradient_routing" in events.Tags()["images"]
