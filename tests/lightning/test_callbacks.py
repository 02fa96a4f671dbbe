import csv
import random
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from lightning.pytorch.callbacks import EarlyStopping
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.strategies import FSDPStrategy, ModelParallelStrategy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import nn
from torch.nn import functional as F
from torchvision.models.swin_transformer import PatchMerging

from cnnpool import probe
from cnnpool.lightning import Aliasing, Cost, GradientRouting, ProbeCallback, ShiftInvariance
from cnnpool.lightning.probe_batch import BatchCollector, measurable
from cnnpool.lightning.probe_callback import log_figure


def bits(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


def restless(module):
    """``module`` with passes that count in a buffer, draw in Python and numpy, and log, also in eval mode."""

    def note(module, _):
        module.calls += 1
        module.log("drawn", random.random() + np.random.rand())

    module.register_buffer("calls", torch.tensor(0))
    module.register_forward_pre_hook(note)
    random.seed(0)
    np.random.seed(0)
    return module


@pytest.mark.parametrize(("manual", "precision"), [(False, "bf16-mixed"), (True, "64-true")])
def test_training_with_all_callbacks_ends_in_the_same_bits(train, loaders, manual, precision):
    given = ProbeCallback(probe.LieDerivative(samples=8), batch=next(iter(loaders[1])))
    callbacks = [GradientRouting(), ShiftInvariance(max_shift_px=2), Aliasing(), Cost(), given]
    trainer, plain = train(manual=manual, precision=precision, change=restless)
    state, drawn, logged = torch.get_rng_state(), random.random() + np.random.rand(), trainer.callback_metrics
    trainer, probed = train(*callbacks, manual=manual, precision=precision, change=restless)
    assert torch.equal(torch.get_rng_state(), state) and random.random() + np.random.rand() == drawn
    assert trainer.callback_metrics["drawn"] == logged["drawn"]
    assert bits(plain).keys() == bits(probed).keys()
    for name, value in bits(plain).items():
        assert torch.equal(value, probed.state_dict()[name]), name
    assert all(callback.values for callback in callbacks)


def test_values_are_those_of_the_probe(train, loaders):
    callback = GradientRouting(samples=20)
    _, module = train(callback)
    images, labels = (torch.cat(parts)[:20] for parts in zip(*loaders[1], strict=True))
    stages = {"network_3": module.network[3], "network_5": module.network[5]}
    expected = probe.GradientRouting(samples=20).measure(module, stages, images, labels)
    assert callback.latest == expected
    # 2x2 windows send gradient to one cell in four at most.
    assert callback.values["gradient/zero_fraction/network_3"] >= 0.75


# Each batch of manual optimisation takes two steps, as with two optimizers.
@pytest.mark.parametrize("options", [{}, {"manual": True}, {"accumulate_grad_batches": 4}])
def test_every_logger_gets_the_values_of_every_nth_epoch(train, tmp_path, options):
    board = TensorBoardLogger(tmp_path / "board", name=None, version="")
    table = CSVLogger(tmp_path / "table", name=None, version="")
    callback = GradientRouting(samples=8, pictures=False)
    train(callback, Aliasing(every_epochs=2), logger=[board, table], **options)
    events = EventAccumulator(str(tmp_path / "board")).Reload()
    tag = "gradient/zero_fraction/network_3"
    first, last = (event.step for event in events.Scalars("val_loss"))
    assert [event.step for event in events.Scalars(tag)] == [first, last]
    assert {(event.step, event.value) for event in events.Scalars("epoch")} == {(first, 0), (last, 1)}
    assert events.Scalars(tag)[-1].value == pytest.approx(callback.values[tag])
    with (tmp_path / "table" / "metrics.csv").open() as file:
        assert [row["epoch"] for row in csv.DictReader(file) if row[tag]] == ["0", "1"]
    seldom = next(tag for tag in events.Tags()["scalars"] if tag.startswith("aliasing/"))
    assert [event.step for event in events.Scalars(seldom)] == [last]


def test_tensorboard_gets_the_pictures_of_every_epoch(train, tmp_path):
    board = TensorBoardLogger(tmp_path / "board", name=None, version="")
    train(GradientRouting(samples=8), ShiftInvariance(samples=8, map_samples=8), logger=board)
    events = EventAccumulator(str(tmp_path / "board")).Reload()
    steps = [event.step for event in events.Scalars("val_loss")]
    for picture in ("gradient_routing", "accuracy_over_shifts"):
        assert [event.step for event in events.Images(f"maps/{picture}")] == steps


def test_a_callback_that_measured_nothing_says_so(train):
    with pytest.warns(UserWarning, match=r"Aliasing measured nothing: after 2 epochs, every_epochs=3, 48"):
        # Of the four validations of two epochs the first brings all images that there are.
        train(Aliasing(every_epochs=3, samples=99), val_check_interval=0.5)
    with pytest.warns(UserWarning, match="every_epochs=3, 48 images"):
        train(Aliasing(every_epochs=3, samples=99), validate=False)


@pytest.mark.parametrize("sharding", [FSDPStrategy, ModelParallelStrategy])
def test_sharded_parameters_are_refused(sharding):
    trainer = SimpleNamespace(strategy=object.__new__(sharding))
    with pytest.raises(ValueError, match=f"Cost needs all parameters in the .* {sharding.__name__} shards"):
        Cost().setup(trainer, None, "fit")


def test_stages_can_be_named_any_probe_measures_and_the_network_may_be_a_part_of_the_module(train):
    # Without validation the batch comes from training.
    named, own = Aliasing(stages=["network.3"]), {"network": lambda module: module.network}
    lie = ProbeCallback(probe.LieDerivative(samples=8), samples=8, **own)
    part = GradientRouting(network="network", stages="3", quantities="zero_fraction", unpack=[0, 1])
    train(named, lie, part, validate=False)
    assert {tag.rpartition("/")[2] for tag in named.values} == {"network_3"}
    assert part.values.keys() == {"gradient/zero_fraction/3"}
    assert {tag.rpartition("/")[2] for tag in lie.values} >= {"3", "5"}
    with pytest.raises(ValueError, match=r"no module 'network.33'; did you mean 'network.3'"):
        train(Aliasing(stages=["network.33"]))


@pytest.mark.slow
def test_a_compiled_part_is_measured_by_its_own_names(train):
    def compile_part(module):
        module.network = torch.compile(module.network, backend="eager")
        return module

    found, named = GradientRouting(samples=8), GradientRouting(samples=8, stages=["network.3"])
    with warnings.catch_warnings():
        # torch's own, while it compiles.
        warnings.simplefilter("ignore")
        train(found, named, change=compile_part)
    tag = "gradient/zero_fraction/network_3"
    assert found.values[tag] == named.values[tag] >= 0.75


def test_a_picture_is_made_if_wanted_and_measured():
    for callback in (GradientRouting(pictures=False), ShiftInvariance()):
        assert callback.figures(None, {}, None, {}) == {}


def test_a_logger_of_images_or_of_files_gets_a_picture():
    given = []
    files = SimpleNamespace(log_figure=lambda *words: given.append(words))
    log_figure(SimpleNamespace(log_image=lambda **words: given.append(words)), "maps/a", "drawn", 3)
    log_figure(SimpleNamespace(experiment=files, run_id="1"), "maps/a", "drawn", 3)
    assert given == [{"key": "maps/a", "images": ["drawn"], "step": 3}, ("1", "drawn", "maps/a_000003.png")]


def test_a_second_pass_brings_no_image_again():
    collector = BatchCollector(4)
    collector.close()
    for _ in range(2):
        collector.add((torch.zeros(2, 1, 1, 1), torch.zeros(2, dtype=torch.int64)))
        collector.close()
    assert collector.count == len(collector.batch()[0]) == 2
    # Nor does one after a resumption.
    resumed = BatchCollector(4)
    resumed.load_state_dict(collector.state_dict())
    resumed.add((torch.ones(2, 1, 1, 1), torch.ones(2, dtype=torch.int64)))
    assert [part.sum() for part in resumed.batch()] == [0, 0] and resumed.count == 2


def test_a_batch_of_another_form_is_unpacked_or_refused_with_the_remedy():
    collector = BatchCollector(3, lambda batch: (batch["image"], batch["label"]))
    for start in (0, 2, 4):
        images = torch.arange(start, start + 2.0).view(2, 1, 1, 1)
        collector.add({"image": images, "label": torch.tensor([0, 1])})
    images, labels = collector.batch()
    assert images.flatten().tolist() == [0, 1, 2] and labels.tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match=r"a batch of type dict is not .*unpack="):
        BatchCollector(4).add({"image": images, "label": labels})
    with pytest.raises(ValueError, match=r"images must be a floating-point .*got int64 \(3,\).*unpack="):
        BatchCollector(4).add((labels, labels))


def test_numbers_out_of_range_are_refused():
    for option in ("samples", "every_epochs"):
        with pytest.raises(ValueError, match=f"{option} must be"):
            ProbeCallback(probe.Aliasing(), **{option: 0})


def test_chosen_quantities_alone_are_logged_and_watched(train):
    callback = GradientRouting(every_epochs=2, quantities=("zero_fraction",))
    tag = "gradient/zero_fraction/network_3"
    watch = EarlyStopping(tag, patience=4, check_on_train_epoch_end=True, strict=False)
    trainer, _ = train(callback, watch, max_epochs=20, limit_train_batches=1)
    assert callback.values.keys() == {tag, "gradient/zero_fraction/network_5"}
    # The first value comes after epoch 2; unchanged or not smaller in 4 epochs, it ends the training.
    assert 2 + 4 <= trainer.current_epoch <= 20 and watch.wait_count <= 4
    with pytest.raises(ValueError, match="quantities: gradient has no 'zeros'; choose from"):
        GradientRouting(quantities=("zeros",))
    group = ShiftInvariance(presets=["tips"], quantities=["consistency"])
    assert [one.key for one in group.quantities] == ["consistency.tips"]
    with pytest.raises(ValueError, match=r"'consistency\.tips'; did you mean 'consistency'"):
        ShiftInvariance(quantities=["consistency.tips"])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint64])
def test_labels_of_any_integers_are_taken(dtype):
    images, labels = measurable(torch.rand(3, 1, 4, 4), torch.tensor([0, 2, 1]).to(dtype))
    assert labels.dtype == torch.int64 and labels.tolist() == [0, 2, 1] and len(images) == 3


def test_what_is_not_measured_is_named_before_the_first_step(train):
    class Calls(nn.Module):
        def forward(self, x):
            return F.max_pool2d(x, 2)

    class Swin(nn.Module):
        def __init__(self):
            super().__init__()
            self.merging = PatchMerging(4)

        def forward(self, x):
            return self.merging(x.movedim(1, -1)).movedim(-1, 1)

    def change(module):
        module.network[3], module.network[5] = Calls(), Swin()
        module.network.insert(6, pool := nn.MaxPool2d(2))
        module.network.insert(8, pool)
        return module

    callback = GradientRouting()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train(callback, change=change, max_epochs=1)
    seen = [str(one.message) for one in caught if "GradientRouting measures" in str(one.message)]
    # Nor are Swin's maps, (N, H, W, C).
    assert list(callback.latest) == ["network_6"]
    assert seen == [
        "GradientRouting measures only the last of 2 calls of network.6",
        "GradientRouting measures modules, not 1 call of max_pool2d in network.3: "
        "cnnpool.as_modules(model) makes modules of them",
    ]
