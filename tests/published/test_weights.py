"""Weights from files: strict, without code, and known again."""

import pickle
from dataclasses import replace

import pytest
import torch
import torchvision
from safetensors.torch import save_file
from torch import nn
from torchvision import models
from torchvision.transforms import CenterCrop, Normalize, Resize

from cnnpool.published.build import sentence, sized
from cnnpool.published.sources import Timm, Torchvision
from cnnpool.published.weights import Loaded, Weights, from_file, load_into, tensors_of


def network(classes=3, width=4):
    torch.manual_seed(classes * 100 + width)
    return nn.Sequential(
        nn.Conv2d(3, width, 3), nn.BatchNorm2d(width), nn.Flatten(), nn.Linear(width, classes)
    )


@pytest.mark.parametrize("kind", ["weights.safetensors", "weights.pth"])
def test_a_file_brings_every_weight_and_buffer(tmp_path, kind):
    path, source, target = tmp_path / kind, network(), network(3, 4)
    with torch.no_grad():
        source[1].running_mean.fill_(7)
    (save_file if path.suffix == ".safetensors" else torch.save)(source.state_dict(), path)
    loaded = load_into(target, from_file(path), 3)
    theirs, ours = source.state_dict(), target.state_dict()
    assert all(torch.equal(theirs[name], ours[name]) for name in theirs)
    assert loaded.new == () and loaded.source == f"from {path}"
    assert loaded.sha256 == Weights(source.state_dict(), "memory").sha256


def test_only_layers_that_make_logits_of_other_classes_stay_new():
    source, target = network(5), network(3)
    before = target[3].weight.clone()
    loaded = load_into(target, Weights(source.state_dict(), "five"), 3)
    assert loaded.new == ("3.weight", "3.bias")
    assert torch.equal(target[3].weight, before) and torch.equal(target[0].weight, source[0].weight)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: s.pop("0.weight"), r"missing weights: 1 \(0.weight, ...\)"),
        (lambda s: s.update(extra=torch.zeros(1)), r"unexpected weights: 1 \(extra, ...\)"),
        (lambda s: s.update({"0.weight": torch.zeros(4, 1, 3, 3)}), r"0.weight is \(4, 1, 3, 3\), not"),
        (lambda s: s.update({"0.bias": torch.zeros(9)}), r"0.bias is \(9,\), not \(4,\)"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_loaded(change, said):
    target = network()
    before = target[3].weight.clone()
    state = dict(network(3, 4).state_dict()) | {"3.weight": torch.ones(3, 4)}
    change(state)
    with pytest.raises(ValueError, match=said):
        load_into(target, Weights(state, "somewhere"), 3)
    assert torch.equal(target[3].weight, before)


class Evil:
    def __reduce__(self):
        return print, ("code ran",)


@pytest.mark.parametrize("name", ["evil.pth", "evil.safetensors", "missing.pth", "missing.safetensors"])
def test_a_file_that_holds_code_or_nothing_is_one_line(tmp_path, name, capfd):
    path = tmp_path / name
    if path.stem == "evil":
        path.write_bytes(pickle.dumps({"weight": Evil()}))
    with pytest.raises(ValueError, match=name) as caught:
        from_file(path)
    assert "\n" not in str(caught.value) and "code ran" not in capfd.readouterr().out


def test_code_in_the_cache_of_published_weights_is_not_run(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    url = models.get_model_weights("squeezenet1_1")["DEFAULT"].url
    cached = tmp_path / "hub" / "checkpoints" / url.rpartition("/")[2]
    cached.parent.mkdir(parents=True)
    torch.save({"weight": Evil()}, cached)
    capfd.readouterr()
    with pytest.raises(
        ValueError, match="the published weights could not be fetched: Weights only load failed"
    ):
        Torchvision(arch="squeezenet1_1", weights="default").read_weights()
    assert "code ran" not in capfd.readouterr().out


def test_identity_sees_names_shapes_types_and_every_bit():
    state = {"a": torch.zeros(2, 3), "b": torch.ones(4, dtype=torch.bfloat16), "c": torch.tensor(5)}
    same = Weights(dict(reversed(state.items())), "elsewhere").sha256
    assert same == Weights(state, "x").sha256
    flipped = state["a"].clone()
    flipped[1, 2] = -0.0
    others = [
        {**state, "a": flipped},
        {**state, "a": torch.zeros(3, 2)},
        {**state, "b": state["b"].half()},
        {"a2": state["a"], **{k: v for k, v in state.items() if k != "a"}},
    ]
    assert len({same, *(Weights(other, "").sha256 for other in others)}) == 5


def test_wrappers_names_are_taken_off(tmp_path):
    inner = {"module.a": torch.zeros(1), "module.b": torch.ones(1)}
    assert list(tensors_of({"state_dict": inner, "epoch": 3})) == ["a", "b"]
    # Of a run of this package, whose model holds the network; another's network may have a part of that name.
    inner = {f"model.network.{name}": value for name, value in zip("ab", inner.values(), strict=True)}
    for more, names in (({"cnnpool": {}}, ["a", "b"]), ({}, ["network.a", "network.b"])):
        torch.save({"state_dict": inner, **more}, tmp_path / "last.ckpt")
        assert list(from_file(tmp_path / "last.ckpt").state) == names
        # As `probe` reads them, into the whole model.
        assert list(tensors_of({"state_dict": inner, **more})) == ["network.a", "network.b"]


def test_of_a_whole_model_the_line_that_saves_its_weights_is_named(tmp_path):
    torch.save(network(), tmp_path / "model.pth")
    with pytest.raises(ValueError, match=r"whole model: save torch\.save\(model\.state_dict\(\), FILE\)$"):
        from_file(tmp_path / "model.pth")


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
    loaded = Loaded("torchvision", mean=preset.mean, std=preset.std)
    assert sentence(preset, loaded, resized=True) == (
        "images as for the weights of torchvision ResNet18_Weights.IMAGENET1K_V1: resized to 256x256, "
        "the central 224x224 (data.resize, data.size), mean 0.485 0.456 0.406, deviation 0.229 0.224 0.225 "
        "(model.normalise)"
    )
    assert sentence(preset, Loaded("torchvision"), resized=False) == ""


@pytest.mark.parametrize("arch", ["resnet18", ""])
def test_images_are_normalised_as_in_the_run_whose_checkpoint_the_weights_are(arch, tmp_path):
    path, state = tmp_path / "last.ckpt", torchvision.models.resnet18(num_classes=4).state_dict()
    known = {"mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6]}
    content = {"state_dict": {f"model.network.{name}": value for name, value in state.items()}}
    torch.save({**content, "cnnpool": {}, "hyper_parameters": {"data": known}}, path)
    source = Torchvision(arch="resnet18", weights=str(path))
    found, preset = source.read_weights(), source.preset() if arch else None
    assert (found.mean, found.std) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))
    loaded = load_into(source.network(4), found, 4)
    of, own = ("of torchvision ResNet18_", "of the checkpoint's run ") if arch else (f"from {path}: ", "")
    said = sentence(preset, loaded, resized=False)
    assert said.startswith(f"images as for the weights {of}")
    assert said.endswith(f"mean 0.1 0.2 0.3, deviation 0.4 0.5 0.6 {own}(model.normalise)")
    assert replace(source, normalise="data").read_weights().mean is None


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
