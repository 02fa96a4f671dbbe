"""Keys of the images, and of networks of other packages, do what their sentences say."""

import json
import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from proofs import elsewhere, proves
from short_runs import STILL
from torch.nn import functional as F

import cnnpool
from cnnpool.data import DataError

TOGETHER = (
    {"crop": 3, "flip": True, "mixup": 0.4, "size": 20, "batch_size": 64, "val_size": 0.3},
    {"shift": 2, "random_resized_crop": [0.3, 0.6], "auto_augment": "randaugment", "color_jitter": 0.5,
     "cutmix": 1.0, "limit": 500},
)  # fmt: skip
elsewhere("""
data/test_dataset.py
  evaluation_takes_fewer_images_at_once_where_they_are_large: data.eval_batch_size
data/test_image_folder.py
  classes_images_and_labels_are_those_of_the_folders: data.root
  classes_alone_are_cut_by_a_seed_of_their_own: data.test_size data.split_seed
data/test_loader.py
  evaluation_sees_what_torchvisions_preset_gives: data.resize
data/test_torchvision.py
  missing_files_are_downloaded_by_torchvision_and_decoded_once: data.download
  images_and_labels_of_svhn_are_those_of_its_files: data.dataset
  letters_of_emnist_are_grey_and_have_no_class_for_nothing: data.variant data.channels
data/test_huggingface.py
  images_labels_and_classes_are_those_of_the_files: data.path
  what_is_not_there_is_refused_in_a_line: data.train data.val data.test
  one_of_several_columns_of_classes_must_be_chosen: data.image data.label
data/test_image_table.py
  columns_are_found_by_their_usual_names_or_named: data.table data.split
launch/test_published.py
  weights_of_a_file_are_recorded_and_fine_tuned: model.weights
  sizes_and_scale_of_the_weights_are_said_recorded_and_known_again: model.normalise
""")


@proves(*(f"data.{key}" for keys in TOGETHER for key in keys))
@pytest.mark.parametrize("keys", TOGETHER)
def test_the_first_loss_is_that_of_images_so_treated(losses, keys):
    options = [f"data.{key}={str(value).lower() if value is True else value}" for key, value in keys.items()]

    def first(keys):
        return next(iter(cnnpool.datamodule("digits", **keys).train_dataloader()))

    (loss,) = losses(*options, "fit.max_steps=1")
    pixels, labels = first(keys)
    with torch.no_grad():
        logits = cnnpool.classifier(*STILL, *options).train()(pixels).double()
    labels = labels.double() if labels.is_floating_point() else labels
    assert loss == pytest.approx(float(F.cross_entropy(logits, labels, label_smoothing=0.1)), rel=1e-5)
    for key in keys:
        # Each of them has a part in that.
        other, _ = first({name: value for name, value in keys.items() if name != key})
        assert other.shape != pixels.shape or not torch.equal(other, pixels), key


@pytest.fixture
def photographs(photographed):
    """Twelve colour images of two classes and many sizes; no test images."""
    return photographed("mine", 12, 20, 24, more=1)


def read(root, **options):
    return cnnpool.datamodule(
        "image_folder", root=str(root), **{"size": 16, "val_size": 0, **options}
    ).dataset


@proves("trainer.limit_test_batches")
def test_classes_are_scored_on_the_images_that_a_limit_leaves(photographs, command, in_a_folder):
    out = in_a_folder / "run"
    options = [f"data.root={photographs}", "data.size=16", "data.val_size=0", "data.test_size=0.5"]
    few = ["data.eval_batch_size=2", "trainer.limit_test_batches=1", "fit.max_steps=1"]
    assert command("train", *STILL, "data=image_folder", *options, *few, f"hydra.run.dir={out}") == 0
    test = json.loads((out / "results.json").read_text())["test"]
    # A share that leaves no batch is refused before the training.
    assert command("train", *STILL, "data=digits", "trainer.limit_test_batches=0.1", "hydra.run.dir=x") == 2
    assert not (in_a_folder / "x").exists()
    # The first two test images are both of class a.
    assert test["class_accuracy"] == {"a": test["accuracy"]} and test["balanced_accuracy"] == test["accuracy"]


@proves("data.skip_unreadable", "data.max_megapixels", "data.stream")
def test_limits_and_streams_of_a_folder_are_as_asked(photographs):
    whole = read(photographs)
    streamed = read(photographs, stream=True)
    kept = [next(iter(cnnpool.datamodule("image_folder", root=str(photographs), size=16, val_size=0,
            batch_size=4, stream=stream).train_dataloader())) for stream in (False, True)]  # fmt: skip
    assert torch.equal(kept[0][0], kept[1][0])
    assert "not held in memory" in str(streamed.notes) and "not held" not in str(whole.notes)
    Image.fromarray(np.zeros((1000, 1001, 3), np.uint8)).save(photographs / "a" / "large.png")
    assert len(read(photographs, max_megapixels=2).train) == len(whole.train) + 1
    with pytest.raises(DataError, match=r"data.max_megapixels=1"):
        read(photographs, max_megapixels=1)
    assert len(read(photographs, max_megapixels=1, skip_unreadable=True).train) == len(whole.train)
    own = {"name": "image_folder", "root": photographs, "size": 16, "val_size": 0, "skip_unreadable": True}
    with pytest.raises(ValueError, match=r"a/large.png: .* more than the training's data.max_megapixels=1"):
        cnnpool.classifier(data=own | {"max_megapixels": 1}).predict(photographs / "a" / "large.png")


@pytest.mark.parametrize("stream", ["false", "true"])
def test_test_images_that_are_training_images_too_are_counted(photographs, command, capfd, stream):
    split = {"train": ["a/0", "a/2", "a/4", "b/1", "b/3", "b/5"], "test": ["a/6", "b/7"]}
    for part, names in split.items():
        for name in names:
            (photographs / part / name).parent.mkdir(parents=True, exist_ok=True)
            (photographs / f"{name}.png").rename(photographs / part / f"{name}.png")
    # The same pixels under another name, of another class and format.
    Image.open(photographs / "train/a/2.png").save(photographs / "test/b/copy.bmp")
    shutil.rmtree(photographs / "a"), shutil.rmtree(photographs / "b")
    words = [f"data.root={photographs}", "data.size=16", "data.val_size=0", f"data.stream={stream}"]
    options = [*STILL, "data=image_folder", *words, "fit.max_steps=1", "data.batch_size=2"]
    assert command("train", *options, "hydra.run.dir=one") == 0
    said = "image_folder: 1 of the 3 test images are also training images"
    assert said in capfd.readouterr().out
    (photographs / "test/b/copy.bmp").unlink()
    assert command("train", *options, "hydra.run.dir=two") == 0
    assert "also training images" not in capfd.readouterr().out


@proves("data.config", "data.revision")
def test_the_hub_is_asked_for_the_configuration_and_revision(monkeypatch):
    asked = []

    def load_dataset(*words, **options):
        asked.append((words, options["revision"]))
        raise OSError("no network")

    library = SimpleNamespace(load_dataset=load_dataset, DownloadConfig=lambda **options: options)
    monkeypatch.setitem(sys.modules, "datasets", library)
    with pytest.raises(DataError, match="no network"):
        cnnpool.datamodule("huggingface", path="a/b", config="small", revision="v2")
    assert asked == [(("a/b", "small"), "v2")]


@proves("model.arch", "model.order", "model.after", "model.min_channels", "model.skip_stem")
def test_published_networks_are_changed_as_asked():
    def modules(*words):
        net = cnnpool.classifier(
            "data=digits", "data.size=32", "model=torchvision", "pool=blur", *words
        ).model
        return [type(module).__name__ for module in net.modules()]

    first = ["model.arch=resnet18"]
    usual = modules(*first)
    blurs = usual.count("BlurPool2d")
    assert blurs > 2 and modules("model.arch=squeezenet1_1") != usual
    # Of the stem, of 64 channels, and of others with fewer than 200.
    assert modules(*first, "model.skip_stem=true").count("BlurPool2d") == blurs - 1
    assert 0 < modules(*first, "model.min_channels=200").count("BlurPool2d") < blurs - 1
    before = modules(*first, "model.order=before")
    assert before != usual and before.count("BlurPool2d") == blurs
    behind = modules(*first, "model.after=activation")
    first_blur, first_behind = usual.index("BlurPool2d"), behind.index("BlurPool2d")
    assert usual[first_blur - 1] == "Conv2d" and behind[first_behind - 1] == "ReLU"
    assert behind.count("BlurPool2d") == blurs
