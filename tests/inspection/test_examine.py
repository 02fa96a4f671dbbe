import json
import re
import subprocess
import sys
import zipfile

import pytest
import torch

import cnnpool
from cnnpool import data, model, pool, probe, readout
from cnnpool.inspection import main
from cnnpool.inspection.checkpoint import read
from cnnpool.inspection.measure import assignment, build_probes
from cnnpool.published.weights import tensors_of
from cnnpool.report.measure import known_keys, quantities_of
from cnnpool.report.runs import find

FEW = ["--samples", "8", "--probes", "gradient,invariance", "--set", "invariance.max_shift_px=1"]
FEW += ["--set", "invariance.worst_px=0"]


def tiny(name="max", seed=3):
    torch.manual_seed(seed)
    return model.build(
        "convnet",
        1,
        (28, 28),
        10,
        pool=lambda stage, channels: pool.build(name, channels),
        readout=lambda channels, size: readout.build("gap", channels, size),
        width=2,
    )


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(tmp_path):
    """A run's folder as training leaves it, and its model."""
    folder, net = tmp_path / "outputs" / "seed1", tiny()
    (folder / "checkpoints").mkdir(parents=True)
    facts = {
        "schema": 1,
        "run": "digits/convnet/max/seed1",
        "choice": "digits/convnet/max",
        "pool": {"name": "max"},
        "stages": {"s1": {"name": "max"}, "s2": {"name": "max"}},
        "readout": {"name": "gap"},
        "model": {"name": "convnet", "width": 2},
        "data": {"name": "digits", "val_size": 0.2, "root": "data"},
        "seed": 1,
        "epochs": 2,
        "finished": "2026-01-01T00:00:00+00:00",
    }
    (folder / "results.json").write_text(json.dumps(facts))
    state = {f"model.{key}": value for key, value in net.state_dict().items()}
    torch.save({"state_dict": state, "cnnpool": {"steps": 7}}, folder / "checkpoints" / "last.ckpt")
    return folder, net


def examined(capsys, *arguments):
    assert main([*arguments, "--out", "out"]) == 0
    with open("out/results.json") as file:
        return json.load(file), capsys.readouterr().out


def test_help_is_there_without_torch():
    code = "from cnnpool.inspection import main\ntry: main(['--help'])\nfinally: "
    code += "import sys; assert 'torch' not in sys.modules"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert said.returncode == 0, said.stderr
    assert "torchvision:resnet18" in said.stdout and "--swap" in said.stdout


def test_a_run_is_measured_as_its_model_in_memory(run, capsys):
    folder, net = run
    results, said = examined(capsys, str(folder), *FEW)
    dataset = data.build("digits", val_size=0.2, seed=1)
    images, labels = next(iter(dataset.test_batches()))
    chosen = data.draw.stratified(dataset.test.labels, seed=0)[:8]
    seen = images[chosen].contiguous(), labels[chosen]
    expected = probe.build("gradient", samples=8).measure(net, net.stages, *seen)
    for stage in ("s1", "s2"):
        for key in ("zero_fraction", "coverage", "tied_windows", "hoyer"):
            assert results["gradient"][stage][key] == pytest.approx(expected[stage][key], rel=1e-4)
    right = (net.eval()(seen[0]).argmax(1) == seen[1]).double().mean().item()
    assert results["test"]["accuracy"] == right and results["test"]["samples"] == 8
    assert results["examined"]["weights"].endswith("last.ckpt, 7 steps")
    assert results["seed"] == 1 and results["epochs"] == 2 and results["pool"] == {"name": "max"}
    assert f"accuracy  {100 * right:.1f} %" in said and "MaxPool2d" in said


def test_results_can_be_compared_like_those_of_a_run(run, capsys):
    examined(capsys, str(run[0]), *FEW)
    found = find(["out"])
    assert [one.state for one in found] == ["done"]
    assert "invariance.consistency.distinct" in known_keys(found, quantities_of(found))


def test_pictures_lie_beside_the_results(run, capsys, tmp_path):
    probes = ["--probes", "gradient,invariance,heat_map,sensitivity,receptive_field", "--samples", "4"]
    quick = ["--set", "heat_map.radius_px=1", "--set", "sensitivity.radius_px=1"]
    _, said = examined(capsys, str(run[0]), *probes, *quick)
    names = {path.stem for path in (tmp_path / "out").glob("*.png")}
    assert names == {
        "accuracy_over_shifts", "gradient_routing", "winners", "heat_map", "sensitivity", "receptive_field"
    }  # fmt: skip
    for name in names:
        assert (tmp_path / "out" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert f"{name}.png" in said


def test_a_swapped_model_is_the_one_swapped_by_hand(run, capsys):
    folder, net = run
    options = ["--swap", "blur", "--swap-set", "filter_size=5"]
    results, _ = examined(capsys, str(folder), "--probes", "cost,gradient", "--samples", "4", *options)
    cnnpool.swap(net, "blur", example=torch.zeros(1, 1, 28, 28), filter_size=5)
    assert results["cost"]["flops"] == probe.cost.flops(net, net.stages, torch.zeros(1, 1, 28, 28))
    assert results["stages"]["s1"]["name"] == "BlurPool2d" and results["pool"] == {
        "name": "blur",
        "filter_size": 5,
    }
    assert results["run"].endswith("+blur") and "random" not in results["examined"]["weights"]


def test_parameters_that_come_with_a_swap_are_said_to_be_random(run, capsys):
    results, said = examined(capsys, str(run[0]), "--probes", "cost", "--samples", "2", "--swap", "lip")
    assert results["examined"]["weights"].endswith("; what lip brings of its own is random, seed 0")
    assert "is random, seed 0" in said


def test_random_weights_are_said_plainly_and_repeat(capsys):
    arguments = ["torchvision:squeezenet1_1", "--samples", "2", "--probes", "gradient", "--size", "40"]
    first, said = examined(capsys, *arguments)
    again, _ = examined(capsys, *arguments)
    other, _ = examined(capsys, *arguments, "--seed", "1")
    assert re.search(r"weights +random, seed 0: the figures describe the architecture, untrained", said)
    assert first["gradient"] == again["gradient"] != other["gradient"]
    assert "2 test images of digits, 3x40x40" in said
    # Its stem is a strided convolution, and it pools three times.
    assert [stage["name"] for stage in first["stages"].values()] == ["Conv2d"] + 3 * ["MaxPool2d"]
    assert next(iter(first["stages"])) == "features_0"


def test_a_timm_model_is_measured_with_strided_convolutions_made_pooling(capsys):
    arguments = ["timm:test_resnet", "--samples", "2", "--probes", "gradient,equivariance", "--size", "32"]
    results, _ = examined(capsys, *arguments, "--swap", "max", "--where", "conv")
    assert any(stage["name"] == "MaxPool2d" for stage in results["stages"].values())
    assert results["examined"]["swapped"]


def test_a_users_model_is_imported_and_its_foreign_classes_are_not_judged(tmp_path, capsys):
    (tmp_path / "mine_to_probe.py").write_text(
        "from torch import nn\n\n\ndef build():\n"
        "    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1),\n"
        "                         nn.Flatten(), nn.Linear(2, 3))\n"
    )
    results, said = examined(capsys, "mine_to_probe:build", *FEW)
    assert "test" not in results and results["stages"]["2"]["name"] == "MaxPool2d"
    assert "the model's own answers: it has 3 outputs, digits 10 classes" in said
    assert results["invariance"]["accuracy_by_shift"]["0"] == 1.0
    assert results["examined"]["weights"] == "as mine_to_probe:build() left them"


def test_a_checkpoint_gives_a_users_model_its_weights(tmp_path, capsys):
    (tmp_path / "mine_to_load.py").write_text(
        "from torch import nn\n\n\ndef build():\n    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))\n"
    )
    bias = torch.full((10,), -1.0)
    bias[4] = 1.0
    torch.save({"model": {"module.1.weight": torch.zeros(10, 784), "module.1.bias": bias}}, "mine.pt")
    results, said = examined(
        capsys, "mine_to_load:build", "--checkpoint", "mine.pt", "--samples", "20", "--probes", "cost"
    )
    assert results["test"]["accuracy"] == pytest.approx(0.1)
    assert "no downsampling module" in said and results["examined"]["weights"] == "from mine.pt"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere is no folder or file"),
        (["torchvision:resnet19"], "no classifier 'resnet19'; did you mean 'resnet1"),
        (["timm:test_resnot"], "timm has no model 'test_resnot'; did you mean 'test_resnet'"),
        (["torchvision:resnet18", "--weights", "best"], "no weights 'best'; choose from IMAGENET1K_V1"),
        (["nothing.at:all"], "cannot import nothing.at:all: ModuleNotFoundError"),
        (["os:getcwd"], r"os:getcwd\(\) returned a str, not a torch.nn.Module"),
        (["run", "--data", "minst"], "did you mean 'mnist'"),
        (["run", "--swap", "max_blurr"], "did you mean 'max_blur'"),
        (["run", "--swap", "blur", "--swap-set", "kernel=3"], "blur has no option 'kernel'"),
        (["run", "--swap-set", "kernel_size=3"], "--swap, which is not given"),
        (["run", "--probes", "gradients"], "did you mean 'gradient'"),
        (["run", "--set", "gradient.epsilon=2"], "epsilon must be a number from 0 to 1, got 2"),
        (["run", "--set", "noise.samples=2"], "noise is not among the probes"),
        (["run", "--set", "gradient.epsilon"], "not of the form KEY=VALUE"),
        (["run", "--samples", "0"], "--samples must be at least 2, got 0"),
        (["run", "--device", "cuda:99"], "--device cuda:99: "),
        (["run", "--weights", "default"], "--weights is for models of torchvision and timm"),
        (["run", "--out", "run"], "holds a run that was trained: choose another folder by --out"),
        (["run", "--size", "3"], "the model does not run on images of 1x3x3"),
        (["run", "--checkpoint", "missing.pt"], "cannot read the checkpoint missing.pt: No such file"),
    ],
)
def test_a_mistake_is_answered_in_one_line(run, arguments, message):
    arguments = [str(run[0]) if word == "run" else word for word in arguments]
    with pytest.raises(ValueError, match=message) as error:
        main([*arguments, *([] if "--samples" in arguments else ["--samples", "2"])])
    assert "\n" not in str(error.value)


def test_damaged_runs_and_checkpoints_are_refused(run, tmp_path):
    folder, _ = run
    path = folder / "checkpoints" / "last.ckpt"
    whole = path.read_bytes()
    altered = bytearray(whole)
    with zipfile.ZipFile(path) as archive:
        largest = max(archive.infolist(), key=lambda entry: entry.file_size)
    # Within the stored bytes of the largest tensor.
    altered[largest.header_offset + 200] ^= 1
    for content, message in (
        (bytes(altered), "damaged"), (whole[: len(whole) // 2], "damaged"), (b"", "damaged")
    ):  # fmt: skip
        path.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            main([str(folder)])
    path.write_bytes(whole)
    results = folder / "results.json"
    facts = json.loads(results.read_text())
    for content, message in (
        ("{", "is damaged"),
        ("[]", "is damaged: not a JSON object"),
        (json.dumps(facts | {"schema": 2}), "schema 2 where this version reads 1"),
        (json.dumps(facts | {"stages": None}), "is damaged: stages is null"),
        (json.dumps(facts | {"stages": {}}), "does not describe a model"),
        (json.dumps(facts | {"model": {"name": "convnet", "width": 3}}), "does not fit the model"),
    ):
        results.write_text(content)
        with pytest.raises(ValueError, match=message):
            main([str(folder)])
    results.unlink()
    with pytest.raises(ValueError, match="is no finished run"):
        main([str(folder)])
    with pytest.raises(ValueError, match="nothing says which model it is of"):
        main([str(path)])


class Code:
    def __reduce__(self):
        return (open, ("it_ran", "w"))


def test_code_in_a_checkpoint_never_runs(tmp_path):
    torch.save({"state_dict": Code()}, "bad.pt")
    with pytest.raises(ValueError, match="damaged, or no checkpoint of plain weights"):
        read(tmp_path / "bad.pt")
    assert not (tmp_path / "it_ran").exists()


def test_weights_are_found_under_wrappers():
    x = torch.zeros(1)
    assert tensors_of({"state_dict": {"model.a": x, "model.b": x}, "epoch": 3}).keys() == {"a", "b"}
    assert tensors_of({"module.model.a": x}).keys() == {"a"}
    assert tensors_of({"model.a": x, "head": x}).keys() == {"model.a", "head"}


def test_options_are_read_from_text_and_samples_cap_them():
    assert assignment("a=3") == ("a", 3)
    assert assignment("a=[1,x]") == ("a", (1, "x"))
    assert assignment("a=tips,aps_crop") == ("a", ("tips", "aps_crop"))
    assert assignment("a=true") == ("a", True)
    built = build_probes("invariance,noise", ["invariance.presets=tips,aps_crop"], 100)
    assert built["invariance"].presets == ("tips", "aps_crop")
    assert (built["invariance"].samples, built["invariance"].stage_samples) == (100, 64)
    assert build_probes("all", [], None).keys() == probe.PROBES.keys()


def test_what_a_probe_left_is_refused_as_a_run(run, capsys):
    examined(capsys, str(run[0]), "--probes", "cost", "--samples", "2")
    with pytest.raises(ValueError, match=r"^out/results.json is of an earlier cnnpool probe: give the run"):
        main(["out", "--probes", "cost"])
