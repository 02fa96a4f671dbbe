"""Images are prepared for published weights as their packages prepare them."""

import dataclasses

import numpy as np
import pytest
import torch
import torchvision
from PIL import Image
from torchvision.transforms import CenterCrop, Normalize, Resize

from cnnpool import data
from cnnpool.published.build import sentence, sized
from cnnpool.published.sources import Timm, Torchvision

timm = pytest.importorskip("timm")

FOLDER = {"name": "image_folder", "size": None, "resize": None}


def settings(chosen=FOLDER, **model):
    chosen_model = {"name": "torchvision", "arch": "resnet18", "normalise": "weights"} | model
    return {"data": dict(chosen), "model": chosen_model}


@pytest.mark.parametrize(
    "arch", ["tf_efficientnet_lite0", "convnext_tiny", "test_resnet", "vit_base_patch14_dinov2"]
)
def test_numbers_of_timm_are_those_of_its_own_test_transform(arch):
    config = timm.data.resolve_data_config({}, pretrained_cfg=timm.get_pretrained_cfg(arch).to_dict())
    steps = {type(step): step for step in timm.data.create_transform(**config).transforms}
    found = Timm(arch=arch, weights="default").preset()
    assert (found.size,) * 2 == tuple(steps[CenterCrop].size)
    assert found.resize == steps[Resize].size
    assert found.mean == pytest.approx(steps[Normalize].mean.tolist())
    assert found.std == pytest.approx(steps[Normalize].std.tolist())


def test_images_are_those_that_torchvision_itself_would_test_on(tmp_path):
    preset = Torchvision(arch="swin_t", weights="default").preset()
    assert (preset.size, preset.resize) == (224, 232)
    rows, columns = np.mgrid[:300, :420] / 20
    image = np.stack([np.sin(rows), np.cos(columns), np.sin(rows + columns)], -1)
    image = Image.fromarray((127.5 + 127 * image).astype(np.uint8))
    for part in ("train", "test"):
        for name, turned in (("a", image), ("b", image.transpose(Image.Transpose.ROTATE_90))):
            (tmp_path / part / name).mkdir(parents=True)
            turned.save(tmp_path / part / name / "x.png")
    chosen = sized(settings(FOLDER | {"root": str(tmp_path)}, arch="swin_t", weights="default"))
    dataset = data.build(**chosen, val_size=0)
    dataset = dataclasses.replace(dataset, mean=preset.mean, std=preset.std)
    ours = next(iter(dataset.plain_loader(dataset.test)))[0]
    transform = torchvision.models.Swin_T_Weights.DEFAULT.transforms()
    theirs = transform(image)
    assert ours.shape == (2, 3, 224, 224)
    # Pixels are rounded to 8 bits before they are cut here.
    difference = (ours[0] - theirs).abs().mean()
    assert difference < 0.01
    for axis in (1, 2):
        assert (ours[0].roll(1, axis) - theirs).abs().mean() > 5 * difference


def test_weights_of_a_file_are_taken_as_the_architecture_publishes_them(tmp_path):
    path = tmp_path / "mine.pth"
    torch.save(torchvision.models.resnet18(num_classes=4).state_dict(), path)
    by_default = Torchvision(arch="resnet18", weights="default").preset()
    source = Torchvision(arch="resnet18", weights=str(path))
    assert source.preset() == by_default and source.read_weights().mean == (0.485, 0.456, 0.406)
    assert Torchvision(arch="resnet18", weights=str(path), normalise="data").read_weights().mean is None


def test_random_weights_ask_for_nothing():
    assert Torchvision(arch="resnet18").preset() is None and Timm(arch="test_resnet").preset() is None
    assert sized(settings()) == FOLDER


def test_what_was_taken_is_one_line():
    preset = Torchvision(arch="resnet18", weights="default").preset()
    asked = settings(weights="default")
    assert sentence(preset, asked, sized(asked)) == (
        "images as for the weights of torchvision ResNet18_Weights.IMAGENET1K_V1: resized to 256x256, "
        "the central 224x224 (data.resize, data.size), mean 0.485 0.456 0.406, deviation 0.229 0.224 0.225 "
        "(model.normalise)"
    )
    asked = settings(FOLDER | {"size": 64}, weights="default", normalise="data")
    assert sentence(preset, asked, sized(asked)) == ""


@pytest.mark.parametrize(
    "chosen",
    [
        FOLDER | {"size": 64},
        FOLDER | {"size": [48, 64], "resize": 80},
        {"name": "cifar10"},
        {"name": "digits", "size": 28},
    ],
)
def test_sizes_that_the_user_or_the_data_set_decides_stay(chosen):
    assert sized(settings(chosen, weights="default")) == chosen
