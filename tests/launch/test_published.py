"""Training networks of other packages from the command line."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from cnnpool.launch import run_job
from cnnpool.run_folder.checkpoint import load

timm = pytest.importorskip("timm")
TINY = ["model=timm:test_resnet", "data.limit=64", "data.batch_size=16", "fit.epochs=2", "probe=none",
        "fit.pictures=false", "fit.progress=false"]  # fmt: skip


def results(folder="outputs"):
    return {path.parent: json.loads(path.read_text()) for path in Path(folder).rglob("results.json")}


def test_a_run_says_its_stages_and_records_what_stands_there(call):
    status, out, err = call("train", *TINY, "pool=max_blur", "pool@stage.maxpool=keep")
    assert status == 0, err
    ((folder, found),) = results().items()
    assert folder.parts[1:3] == ("digits", "timm-test_resnet")
    assert found["model"]["name"] == "timm" and found["model"]["arch"] == "test_resnet"
    names = {stage: operator["name"] for stage, operator in found["stages"].items()}
    assert names["maxpool"] == "keep"
    assert set(names.values()) == {"keep", "max_blur"}
    assert "test_resnet: stages" in out
    swapped = [operator for operator in found["stages"].values() if operator["name"] == "max_blur"]
    assert swapped and all(operator == found["pool"] for operator in swapped)


def test_unknown_stages_and_architectures_are_refused_before_training(call):
    for word, said in (
        ("pool@stage.layer9=avg", "stage.layer9: the network has no such stage; choose from"),
        ("model.weights=none.pth", "none.pth"),
        ("model=timm:test_resnett", "a model of timm, got 'test_resnett'; did you mean 'test_resnet'?"),
        ("model=timm:resnet18.tv_in1", "not a tag of timm's resnet18; did you mean 'resnet18.tv_in1k'?"),
    ):
        assert said in call.refused(*TINY, word)


def test_keep_is_for_published_networks(call):
    assert "pool=keep: keeps what a published network has" in call.refused("pool=keep")
    assert "readout=keep: keeps what a published network has" in call.refused("readout=keep")


def test_weights_of_a_file_are_recorded_and_fine_tuned(call, tmp_path):
    import timm

    torch.manual_seed(3)
    network = timm.create_model("test_resnet", num_classes=7)
    save_file(network.state_dict(), "own.safetensors")
    options = ("model.weights=own.safetensors", "fit.freeze=1", "fit.layer_decay=0.5", "fit.head_rate=5")
    run = ("train", *TINY, *options)
    status, out, _ = call(*run)
    assert status == 0 and "weights from own.safetensors; new, since the classes are others: " in out
    assert "recipe fit=finetune, since model.weights is given; fit=default is" in out
    ((folder, found),) = results().items()
    assert "fit=finetune" in (folder / "train.log").read_text() and "fit=finetune" in found["overrides"]
    assert len(found["model"]["weights_sha256"]) == 64 and found["model"]["weights_new"]
    state = load(folder / "checkpoints" / "last.ckpt")["state_dict"]
    first = next(name for name in network.state_dict() if name.endswith("weight"))
    assert torch.equal(state[f"model.network.{first}"], network.state_dict()[first])
    # Other weights in the same file are another run; without the file the run is known all the same.
    assert "is finished already" in call(*run)[1]
    save_file({name: value + 1 for name, value in network.state_dict().items()}, "own.safetensors")
    run_job.look_again()
    status, _, err = call(*run)
    assert status == 2 and "holds a finished run on other weights (weights_sha256: " in err
    os.remove("own.safetensors")
    run_job.look_again()
    assert "is finished already" in call(*run)[1]


def test_sizes_and_scale_of_the_weights_are_said_recorded_and_known_again(call, tmp_path):
    torch.manual_seed(0)
    save_file(timm.create_model("test_resnet", num_classes=2).state_dict(), tmp_path / "w.safetensors")
    for part, count in (("train", 8), ("test", 2)):
        for name in ("ant", "bee"):
            (tmp_path / "photos" / part / name).mkdir(parents=True)
            for i in range(count):
                pixels = np.random.default_rng(i).integers(0, 256, (30 + i, 40, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / "photos" / part / name / f"{i}.png")
    asked = [*TINY, "data=image_folder", "data.root=photos", "data.batch_size=4", "fit.epochs=1"]
    asked += ["model.weights=w.safetensors"]
    status, out, err = call("train", *asked)
    assert status == 0, err
    assert "images as for the weights of timm test_resnet: resized to 168x168, the central 160x160" in out
    ((folder, found),) = results().items()
    assert (found["data"]["size"], found["data"]["resize"]) == (160, 168)
    assert found["model"]["mean"] == found["model"]["std"] == [0.5, 0.5, 0.5]
    assert "is finished already" in call("train", *asked)[1]
    status, out, err = call("probe", str(folder), "--probes", "cost")
    assert status == 0, err
    status, out, err = call("train", *asked, "data.size=32", "model.normalise=data", "out=own")
    assert status == 0 and "images as for the weights" not in out
    ((_, found),) = results("own").items()
    assert (found["data"]["size"], found["data"]["resize"]) == (32, None)
    assert found["model"]["mean"] != [0.5, 0.5, 0.5]


def test_mistakes_in_its_name_are_one_line(call):
    for words, said in (
        (["data=torchvision"], "data.dataset"),
        (["data=torchvision:EMIST"], "did you mean 'EMNIST'?"),
        (["data=torchvision:KMNIST", "data.download=false"], "cannot read KMNIST in"),
    ):
        assert said in call.refused(*words)
