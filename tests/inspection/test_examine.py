import copy
import itertools
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from small_nets import network

import cnnpool
from cnnpool import data, probe, report
from cnnpool.fit.optimizers import levels
from cnnpool.inspection import command, images, main
from cnnpool.inspection.command import build_probes, with_labels
from cnnpool.inspection.images import batch, read_data
from cnnpool.inspection.subject import Subject, from_run, rebuild
from cnnpool.quantity import find as find_quantity
from cnnpool.quantity import from_records
from cnnpool.report import plots

FEW = ["--samples", "8", "--probes", "gradient,invariance", "--set", "invariance.max_shift_px=1"]
FEW += ["--set", "invariance.worst_px=0"]
COST = ["--probes", "cost", "--samples", "2"]


def tiny(name="max", seed=3, side=28, classes=10):
    torch.manual_seed(seed)
    return network("convnet", 1, (side, side), classes, name, width=2)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def figures():
    """The command draws its pictures."""


@pytest.fixture(autouse=True)
def _no_figures(request, monkeypatch):
    """Drawing takes most of the time: the commands draw only for tests that ask for it."""
    if "figures" not in request.fixturenames:
        monkeypatch.setattr(command, "draw", lambda folder, *_: [folder / "drawn.png"])
    monkeypatch.setattr(plots, "draw", lambda comparison: iter(()))


@pytest.fixture
def run(tmp_path):
    """A run's folder as training leaves it, and its model."""
    folder, net = tmp_path / "outputs" / "seed1", tiny()
    write(folder, net, data={"name": "digits", "val_size": 0.2, "root": "data"})
    return folder, net


def write(folder, net, **more):
    (folder / "checkpoints").mkdir(parents=True)
    groups = {"pool": {"name": "max"}, "readout": {"name": "gap"}, "model": {"name": "convnet", "width": 2}}
    facts = {"schema": 1, **groups, "stages": {"s1": {"name": "max"}, "s2": {"name": "max"}}, "seed": 1}
    facts |= {"run": "digits/convnet/max/seed1", "choice": "digits/convnet/max", "epochs": 2}
    facts |= {"finished": "2026-01-01T00:00:00", **more}
    (folder / "results.json").write_text(json.dumps(facts))
    state = {f"model.{key}": value for key, value in net.state_dict().items()}
    torch.save({"state_dict": state, "cnnpool": {"steps": 7}}, folder / "checkpoints" / "last.ckpt")


def photos(folder, sizes):
    """An image of noise of each size, of dogs and cats in turn."""
    generator = torch.Generator().manual_seed(0)
    for number, size in enumerate(sizes):
        path = folder / ("cat" if number % 2 else "dog") / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = torch.randint(256, size, generator=generator, dtype=torch.uint8)
        Image.fromarray(pixels.numpy()).save(path)


@pytest.fixture
def run_of_photos(tmp_path):
    """The folder of a run on ten images of each of two classes, in photos/, of which a fifth is the test."""
    photos(tmp_path / "photos", [(12, 12)] * 20)
    own = {"name": "image_folder", "root": "photos", "channels": 1, "limit": 12, "val_size": 2, "size": None}
    facts = {"data": own, "data_sha256": data.identity(**own), "images": {"classes": ["cat", "dog"]}}
    write(tmp_path / "outputs" / "photos", tiny(side=12, classes=2), **facts)
    return str(tmp_path / "outputs" / "photos")


def examined(capsys, *arguments):
    assert main([*arguments, "--out", "out"]) == 0
    with open("out/results.json") as file:
        return json.load(file), capsys.readouterr().out


def test_help_is_there_without_torch():
    code = "from cnnpool.inspection import main\ntry: main(['--help'])\nfinally: "
    code += "import sys; assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "torchvision:resnet18" in done.stdout and "--swap" in done.stdout


def test_a_run_is_measured_as_its_model_in_memory(run, capsys):
    folder, net = run
    results, said = examined(capsys, str(folder), *FEW)
    dataset = data.build("digits", val_size=0.2, seed=1)
    images, labels = next(iter(dataset.plain_loader(dataset.test)))
    chosen = data.draws.stratified(dataset.test.labels, seed=0)[:8]
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


def test_images_of_others_are_normalised_as_those_of_the_training(run):
    path = run[0] / "checkpoints" / "last.ckpt"
    told = {"hyper_parameters": {"data": {"mean": [0.25], "std": [0.5]}}}
    torch.save(torch.load(path) | told, path)
    assert (from_run(run[0]).mean, from_run(run[0]).std) == ((0.25,), (0.5,))


def test_few_and_other_images_have_the_size_and_the_white_of_the_training(tmp_path):
    for root, part, number in itertools.product(("own", "other"), ("train", "test"), range(8)):
        folder, side = tmp_path / root / part / ("dog" if number < 5 else "cat"), 8 if number < 5 else 12
        folder.mkdir(parents=True, exist_ok=True)
        pixels = np.arange(side * side, dtype=np.uint16).reshape(side, side) * (number + 1)
        pixels[0, 0] = 50_000 if (root, part, number) == ("own", "train", 4) else 900
        Image.fromarray(pixels).save(folder / f"{number}.png")
    own = {"name": "image_folder", "root": "own", "channels": 1, "size": None}
    run = tmp_path / "outputs" / "deep"
    write(run, tiny(side=8, classes=2), data=own, data_sha256=data.identity(**own))
    path = run / "checkpoints" / "last.ckpt"
    torch.save(torch.load(path) | {"hyper_parameters": {"data": {"size": [8, 8], "white": 65_535}}}, path)
    subject = from_run(run)
    whole, few = (read_data(subject, None, None, False, samples=n) for n in (None, 2))
    chosen = data.draws.stratified(whole.test.labels, seed=0)[:2].sort().values
    assert torch.equal(few.test.pixels, whole.test.pixels[chosen])
    for root, samples in (("own", None), ("other", 2), ("other", None)):
        found = read_data(subject, None, root, False, samples=samples)
        assert (found.size, found.white) == (whole.size, whole.white) == ((8, 8), 65_535)
    assert read_data(subject, None, "other", False, size=6).size == (6, 6)
    assert cautioned(run, root="own") == "" and "other images" in cautioned(run, root="other", size=6)


def test_pictures_lie_beside_the_results(run, figures, capsys, tmp_path):
    probes = ["--probes", "gradient,invariance,heat_map,receptive_field", "--samples", "4"]
    _, said = examined(capsys, str(run[0]), *probes, "--set", "heat_map.radius_px=1")
    names = {path.stem for path in (tmp_path / "out").glob("*.png")}
    assert names == {"accuracy_over_shifts", "gradient_routing", "winners", "heat_map", "receptive_field"}
    for name in names:
        assert (tmp_path / "out" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert f"{name}.png" in said


def test_a_swapped_model_is_the_one_swapped_by_hand_and_stands_beside_the_first(run, capsys):
    folder, net = run
    options = ["--swap", "blur", "--swap-set", "filter_size=5"]
    few = ["--probes", "cost,gradient", "--samples", "4"]
    alone, _ = examined(capsys, str(folder), *few)
    first, said = examined(capsys, str(folder), *few, *options, "--all")
    assert first["gradient"] == alone["gradient"] and first["stages"] == alone["stages"]
    results = json.loads(Path("out/blur+filter_size=5/results.json").read_text())
    old_flops = probe.cost.flops(net, torch.zeros(1, 1, 28, 28))
    cnnpool.swap(net, "blur", example=torch.zeros(1, 1, 28, 28), filter_size=5)
    flops = probe.cost.flops(net, torch.zeros(1, 1, 28, 28))
    assert (first["cost"]["flops"], results["cost"]["flops"]) == (old_flops, flops)
    assert results["stages"]["s1"]["name"] == "BlurPool2d"
    assert results["pool"] == {"name": "blur", "filter_size": 5}
    assert results["run"].endswith("+blur") and "random" not in results["examined"]["weights"]
    # Both operators, both numbers, and their difference in points.
    assert re.search(r"^s1 +MaxPool2d +BlurPool2d$", said, re.M)
    old, new = (100 * found["gradient"]["s2"]["zero_fraction"] for found in (first, results))
    numbers = " +".join(map(re.escape, (f"{old:.2f}", f"{new:.2f}", f"{new - old:+.2f}")))
    assert re.search(rf"^ +s2 +{numbers}$", said, re.M)
    assert re.search(r"^measure +where +max +blur +difference$", said, re.M)


def test_a_swap_is_answered_by_sentences_and_eight_rows(run, capsys):
    probes = ["--probes", "gradient,invariance,aliasing,cost", *FEW[4:], "--samples", "8"]
    results, said = examined(capsys, str(run[0]), *probes, "--swap", "max_blur")
    table = said.partition("measure ")[2].partition("\n\n")[0].splitlines()[2:]
    assert 4 <= len(table) <= 8
    swapped = json.loads(Path("out/max_blur/results.json").read_text())
    flops = find_quantity(from_records(results["quantities"]), "cost.flops")
    old, new = (one["cost"]["flops"] for one in (results, swapped))
    cells = (flops.format(old), flops.format(new), flops.format(new - old, sign=True))
    assert re.search(rf"^FLOPs.* +model +{' +'.join(map(re.escape, cells))}$", said, re.M)
    assert "FLOPs" in re.search("^higher with max_blur: (.*)$", said, re.M)[1]
    # The share by hand stands first, in the table as well, and nothing is called better.
    dataset, net = data.build("digits", val_size=0.2, seed=1), run[1].eval()
    chosen = data.draws.stratified(dataset.test.labels, seed=0)[:8]
    seen = next(iter(dataset.plain_loader(dataset.test)))[0][chosen]
    before = net(seen).argmax(1)
    cnnpool.swap(net, "max_blur", example=seen[:1])
    share = 100 * (net(seen).argmax(1) == before).double().mean().item()
    assert swapped["examined"]["same_answers"] == share / 100 < 1
    same = f"the same answer as before on {share:.1f} % of images; this network was not trained"
    assert said.startswith(same)
    assert re.search(rf"^same answer as before \(%\) +model +100\.00 +{share:.2f} ", said, re.M)
    assert "better" not in said
    for way, (old, new) in swapped["examined"]["ms_per_image"].items():
        cells = (f"{old:.4g}", f"{new:.4g}", f"{new / old:.2f} times")
        assert re.search(rf"^{way} \(ms/image\) +model +{' +'.join(cells)}$", said, re.M)
    assert re.search(r"^[2-9]\d numbers in all, stage by stage: --all, or results\.json$", said, re.M)


def test_photographs_of_different_sizes_are_brought_to_the_size(tmp_path, capsys):
    photos(tmp_path / "photos", [(40 + number, 60 - number, 3) for number in range(8)])
    words = ["--data", "image_folder", "--root", "photos", "--size", "40", *COST]
    results, said = examined(capsys, "torchvision:squeezenet1_1", *words)
    assert "2 test images of image_folder, 3x40x40" in said and results["examined"]["untrained"]
    assert re.search(r"weights +random, seed 0: the numbers describe the untrained architecture", said)
    # Its stem is a strided convolution, and it pools three times.
    assert [stage["name"] for stage in results["stages"].values()] == ["Conv2d"] + 3 * ["MaxPool2d"]
    # A damaged one ends it with what to type, and that is taken; --samples 2 need not meet it.
    damaged = tmp_path / "photos" / "cat" / "damaged.png"
    damaged.write_bytes(b"x")
    words += ["--samples", "9"]
    with pytest.raises(ValueError, match=r"data\.skip_unreadable=true"):
        main(["torchvision:squeezenet1_1", *words])
    other = ["data.skip_unreadable=true", "data.test_size=0.5", "--out", "more"]
    main(["torchvision:squeezenet1_1", *words, *other])
    assert "4 test images of image_folder" in capsys.readouterr().out
    damaged.unlink()
    with pytest.raises(ValueError, match=r"^fit\.lr=1: only settings of the data are taken"):
        main(["torchvision:squeezenet1_1", *words, "fit.lr=1"])
    subject = Subject("net", None, size=24)
    assert read_data(subject, "image_folder", "photos", False).size == (24, 24)
    assert read_data(subject, "image_folder", "photos", False, size=32).size == (32, 32)
    assert read_data(subject, "digits", None, False).size == (28, 28)


def cautioned(folder, samples=None, root=None, size=None, **settings):
    subject = from_run(Path(folder))
    dataset = read_data(subject, None, root, False, size, settings, samples)
    return images.caution(subject, dataset, samples, root, settings)


def test_a_run_is_not_tested_unasked_on_images_that_it_may_have_been_trained_on(run_of_photos, capsys):
    for same in ({}, {"samples": 2}, {"limit": 5}, {"size": 8}, {"root": "photos"}):
        assert cautioned(run_of_photos, **same) == ""
    refused = (
        r"^the run may have been trained on its test images: image_folder in photos or its split has changed "
        r"\(data_sha256: \w{12} -> \w{12}\), so they are drawn anew; restore it, or .* by --root photos$"
    )
    with pytest.raises(ValueError, match=refused):
        cautioned(run_of_photos, split_seed=1)
    Path("photos/dog/0.png").unlink()
    for other in ({}, {"samples": 2}, {"size": 8}):
        with pytest.raises(ValueError, match=refused):
            cautioned(run_of_photos, **other)
    # Naming the folder is enough.
    results, said = examined(capsys, run_of_photos, "--probes", "gradient", "data.root=photos")
    caution = results["examined"]["caution"]
    assert re.search(r"^other images than the run's \(.*\), and it may have been trained on some", caution)
    assert caution == cautioned(run_of_photos, samples=2, root="photos")
    assert f"caution   {caution}\n" in said and "accuracy" in said
    # If nothing was decoded for the run, samples are all that is.
    shutil.rmtree("photos/.cnnpool-cache")
    assert cautioned(run_of_photos, samples=2) == "" and not Path("photos/.cnnpool-cache").exists()
    # Test images in a folder of their own are not drawn.
    for part in ("train", "test"):
        shutil.copytree("photos", f"apart/{part}")
    Path("photos").rename("before")
    Path("apart").rename("photos")
    assert re.fullmatch(r"other images than the run's \(.*\)", cautioned(run_of_photos))


def test_classes_of_a_run_are_found_by_their_names(run_of_photos, capsys):
    Path("photos").rename("others")
    Path("others/cat").rename("others/zebra")
    results, said = examined(capsys, run_of_photos, "--probes", "gradient", "--root", "others")
    assert "test" not in results and "the model's own answers: the run has no class zebra\n" in said
    dataset = SimpleNamespace(name="table", classes=("b", "a"), num_classes=2)
    seen = SimpleNamespace(images=torch.zeros(3, 1, 12, 12), labels=torch.tensor([0, 1, 1]))
    seen._replace = lambda labels: SimpleNamespace(labels=labels)
    trained = SimpleNamespace(images={"classes": ["a", "b"]})
    found, why = with_labels(tiny(side=12, classes=2), seen, dataset, trained)
    assert found.labels.tolist() == [1, 0, 0] and not why


def test_layers_that_a_run_did_not_train_are_frozen(run, capsys):
    folder, net = run
    facts = json.loads((folder / "results.json").read_text())
    (folder / "results.json").write_text(json.dumps(facts | {"fit": {"freeze": 1, "freeze_norm": False}}))
    results, _ = examined(capsys, str(folder), *COST)
    frozen = {id(p) for p in levels(net, torch.zeros(1, 1, 28, 28))[0].parameters}
    trained = sum(p.numel() for p in net.parameters() if id(p) not in frozen)
    assert frozen and results["cost"]["parameters"] == trained


def test_the_next_command_swaps_and_then_shows_both_sides_in_one_comparison(run, capsys):
    arguments = [str(run[0]), "--probes", "gradient", "--samples", "4"]
    _, said = examined(capsys, *arguments)
    words = shlex.split(said.splitlines()[-1].removeprefix("next:"))
    assert words[-8:] == [*arguments, "--out", "out", "--swap", "max_blur"][-8:]
    _, said = examined(capsys, *arguments, "--swap", "avg")
    words = shlex.split(said.splitlines()[-1].removeprefix("next:"))
    assert words[-2:] == ["compare", "out"]
    assert (
        "\nresults: out\n  results.json, drawn.png" in said
        and "\nresults: out/avg\n  results.json, drawn.png" in said
    )
    assert report.main([*words[-1:], "--no-board"]) == 0
    compared = capsys.readouterr().out
    # By the name of the operator, and not by every module that it stands in.
    assert re.search(r"^avg +\d", compared, re.M) and re.search(r"^max +\d", compared, re.M)
    assert "s1:" not in compared


FUNCTIONAL = """\
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = Features()
        self.head = nn.Linear(4, 10)

    def forward(self, x):
        x = F.avg_pool2d(self.features(x), 2, 1)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.narrow = nn.Conv2d(4, 4, 3, stride=2)

    def forward(self, x):
        return F.max_pool2d(self.narrow(F.max_pool2d(self.conv(x), 2)), 2)
"""


def test_functional_pooling_is_named_as_swap_names_it(tmp_path, capsys, caplog):
    (tmp_path / "with_functions.py").write_text(FUNCTIONAL)
    results, said = examined(capsys, "with_functions:Net", *COST, "--swap", "max", "--where", "conv")
    calls = "2 calls of max_pool2d in features, 1 call of avg_pool2d in the model itself"
    assert results["examined"]["functional"] == calls
    assert f"not by stage  {calls}: torch.nn.functional, no modules\n" in said
    cnnpool.swap(sys.modules["with_functions"].Net(), "avg", example=torch.zeros(1, 1, 28, 28))
    assert f"left as they were: {calls}" in caplog.text


def test_numbers_of_untrained_weights_are_marked_each(tmp_path, capsys):
    (tmp_path / "untrained_model.py").write_text(FUNCTIONAL)
    results, said = examined(capsys, "untrained_model:Net", *FEW)
    assert results["examined"]["untrained"] == "untrained"
    assert results["examined"]["weights"] == "as untrained_model:Net() left them, seed 0: untrained"
    numbers = re.findall(r"^(?:features_narrow|.*consistency|.*accuracy) .*$", said, re.M)
    assert len(numbers) >= 5 and all("(untrained)" in line for line in numbers)
    _, said = examined(capsys, "untrained_model:Net", *FEW, "--swap", "max", "--all")
    table = said.partition("measure ")[2].partition("\n\n")[0].splitlines()[2:]
    assert len(table) >= 5 and all("(untrained)" in line for line in table)


def test_probes_with_other_options_are_not_compared_as_one_choice(run, capsys):
    for name, epsilon in (("a", 0.001), ("b", 0.5)):
        options = ["--probes", "gradient", "--samples", "8", "--set", f"gradient.epsilon={epsilon}"]
        assert main([str(run[0]), *options, "--out", f"compared/{name}/seed{epsilon > 0.1:d}"]) == 0
    assert report.main(["compared"]) == 2 and "probe.gradient.epsilon" in capsys.readouterr().err


def test_a_checkpoint_of_step_0_or_of_weights_as_they_were_built_is_untrained(run, tmp_path):
    state = {key: value + 1 for key, value in tiny(seed=9).state_dict().items()}
    dataset, path = data.build("digits", val_size=0.2, seed=1), tmp_path / "other.ckpt"
    built = rebuild(from_run(run[0]).trained, dataset).state_dict()
    for content, mark in (
        ({"cnnpool": {"steps": 0}}, "untrained"),
        ({"global_step": 0}, "untrained"),
        ({"global_step": 5, "epoch": 0}, ""),
        ({}, ""),
        ({"state_dict": built}, "untrained"),
    ):
        torch.save({"state_dict": state, **content}, path)
        assert from_run(run[0], path).build(dataset).untrained == mark


def test_a_function_that_loads_weights_is_not_called_untrained(tmp_path, capsys):
    torch.save(torch.nn.Conv2d(1, 4, 3).state_dict(), "conv.pt")
    (tmp_path / "loads_weights.py").write_text(
        FUNCTIONAL + "\n\ndef partly():\n    import torch\n    net = Net()\n"
        "    net.features.conv.load_state_dict(torch.load('conv.pt'))\n    return net\n"
        "\n\ndef wholly():\n    net = partly()\n    net.features.narrow.weight.data.fill_(1)\n"
        "    net.head.weight.data.fill_(1)\n    return net\n"
    )
    results, said = examined(capsys, "loads_weights:wholly", *FEW)
    assert results["examined"]["untrained"] == "" and "untrained" not in said
    results, said = examined(capsys, "loads_weights:partly", *FEW)
    assert results["examined"]["untrained"] == "partly untrained"
    assert "partly untrained: 2 weights (features.narrow.weight, ...) are random" in said
    assert "(partly untrained)" in said


def test_a_timm_model_is_measured_with_strided_convolutions_made_pooling(figures, capsys):
    arguments = ["timm:test_resnet", "--samples", "2", "--probes", "gradient,equivariance", "--size", "32"]
    results, _ = examined(capsys, *arguments, "--swap", "max", "--where", "conv")
    assert results["examined"]["swapped"] == ""
    swapped = json.loads(Path("out/max+where=conv/results.json").read_text())
    assert any(stage["name"] == "MaxPool2d" for stage in swapped["stages"].values())
    assert swapped["examined"]["swapped"]


def test_published_weights_of_a_file_answer_as_built_and_swapped(capsys):
    timm = pytest.importorskip("timm")
    torch.manual_seed(5)
    network = timm.create_model("test_resnet")
    torch.save(network.state_dict(), "own.pth")
    words = ["timm:test_resnet", "--weights", "own.pth", "--size", "32", *FEW, "--swap", "max_blur"]
    results, said = examined(capsys, *words)
    assert results["examined"]["weights"] == "from own.pth" and not results["examined"]["untrained"]
    swapped = json.loads(Path("out/max_blur/results.json").read_text())
    assert "the answers of the model as built: it has 1000 outputs, digits 10 classes" in said
    # The share of images whose answer the swap leaves as it was.
    digits = data.build("digits", root="data", seed=0)
    images = batch(digits, network, Subject("", None, mean=(0.5,) * 3, std=(0.5,) * 3), samples=8, size=32)
    other = copy.deepcopy(network)
    cnnpool.swap(other, "max_blur", example=images.images[:1])
    with torch.no_grad():
        before, after = (each.eval()(images.images).argmax(1) for each in (network, other))
    agreement = (before == after).double().mean().item()
    assert swapped["invariance"]["accuracy_by_shift"]["0"] == agreement
    assert results["invariance"]["accuracy_by_shift"]["0"] == 1.0


def test_weights_of_a_file_for_other_classes_are_refused(capsys):
    timm = pytest.importorskip("timm")
    torch.save(timm.create_model("test_resnet", num_classes=3).state_dict(), "three.pth")
    with pytest.raises(ValueError, match=r"--weights three.pth: .* is not for the 1000 classes"):
        main(["timm:test_resnet", "--weights", "three.pth", "--size", "32", *FEW])


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
    assert results["examined"]["weights"] == "as mine_to_probe:build() left them, seed 0: untrained"


def test_a_checkpoint_gives_a_users_model_its_weights(tmp_path, capsys):
    code = "from torch import nn\ndef build():\n    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))\n"
    (tmp_path / "mine_to_load.py").write_text(code)
    bias = torch.full((10,), -1.0)
    bias[4] = 1.0
    torch.save({"model": {"module.1.weight": torch.zeros(10, 784), "module.1.bias": bias}}, "mine.pt")
    few = ["--samples", "20", "--probes", "cost"]
    results, said = examined(capsys, "mine_to_load:build", "--checkpoint", "mine.pt", *few)
    assert results["test"]["accuracy"] == pytest.approx(0.1)
    assert "no downsampling module" in said and results["examined"]["weights"] == "from mine.pt"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere is not a folder, a file"),
        (["torchvision:resnet19"], "torchvision:resnet19: arch must be .* got 'resnet19'; did you mean"),
        (["torchvision:resnet18", "--weights", "best"], "weights must be default, .* got 'best'"),
        (["nothing.at:all"], "cannot import nothing.at:all: ModuleNotFoundError"),
        (["os:getcwd"], r"os:getcwd\(\) returned a str, not a torch.nn.Module"),
        (["run", "--swap", "max_blurr"], "did you mean 'max_blur'"),
        (["run", "--swap", "blur", "--swap-set", "kernel=3"], "blur has no option 'kernel'"),
        (["run", "--swap", "readout=gem"], "--swap takes a name alone: --swap gem --where head$"),
        (["model.pt2"], "model.pt2 is an exported program, without modules"),
        (["os:getcwd", "--checkpoint", "model.onnx"], "model.onnx is an exported program"),
        ([str(Path(__file__))], "so its model is unknown: give test_examine:FUNCTION"),
        (["run", "--swap-set", "kernel_size=3"], "--swap-set and --where need --swap"),
        (["run", "--probes", "gradients"], "did you mean 'gradient'"),
        (["run", "--set", "gradient.epsilon=2"], "epsilon must be a number from 0 to 1, got 2"),
        (["run", "--set", "lie.samples=2"], "lie is not among the probes"),
        (["run", "--samples", "0"], "--samples must be at least 2, got 0"),
        (["run", "--device", "cuda:99"], "--device cuda:99: "),
        (["run", "--weights", "default"], "--weights is for models of torchvision and timm"),
        (["run", "--out", "run"], "holds a run that was trained: choose another folder by --out"),
        (["run", "--checkpoint", "missing.pt"], "cannot read the checkpoint missing.pt: No such file"),
    ],
)
def test_a_mistake_is_answered_in_one_line_before_anything_is_measured(run, arguments, message, monkeypatch):
    monkeypatch.setattr(command, "measure", lambda *arguments: pytest.fail("measured"))
    arguments = [str(run[0]) if word == "run" else word for word in arguments]
    with pytest.raises(ValueError, match=message) as error:
        main([*arguments, *([] if "--samples" in arguments else ["--samples", "2"])])
    assert "\n" not in str(error.value)


def test_damaged_runs_and_checkpoints_are_refused(run):
    path, results = run[0] / "checkpoints" / "last.ckpt", run[0] / "results.json"
    whole, facts = path.read_bytes(), json.loads(results.read_text())
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="damaged"):
        main([str(run[0])])
    path.write_bytes(whole)
    for content, message in (
        ("{", "is damaged"),
        (json.dumps(facts | {"stages": {}}), "does not describe a model"),
        (json.dumps(facts | {"model": {"name": "convnet", "width": 3}}), "does not fit the model"),
    ):
        results.write_text(content)
        with pytest.raises(ValueError, match=message):
            main([str(run[0])])
    results.unlink()
    for words, message in ((run[0], "is not a finished run"), (path, "so its model is unknown")):
        with pytest.raises(ValueError, match=message):
            main([str(words)])


def test_the_data_that_a_run_names_are_fetched_only_where_that_is_asked_for(run, monkeypatch):
    results, asked = run[0] / "results.json", []
    facts = json.loads(results.read_text()) | {"data": {"name": "mnist", "root": "theirs", "download": True}}
    results.write_text(json.dumps(facts))

    def build(**options):
        asked.append((options["download"], options["root"]))
        raise ValueError("set data.download=true, or name the folder that holds it by data.root=FOLDER")

    monkeypatch.setattr(images.data, "build", build)
    monkeypatch.setenv("CNNPOOL_DATA", "ours")
    other = ["--data", "fashion_mnist", "--no-download"]
    for more in ([], ["--download"], ["--data", "mnist"], ["--data", "mnist", "--no-download"], other):
        with pytest.raises(ValueError, match=r"^give --download, or name the folder .* by --root FOLDER$"):
            main([str(run[0]), *more])
    assert asked == [*((fetched, "theirs") for fetched in (False, True, True, False)), (False, "ours")]


def test_what_a_probe_left_is_refused_as_a_run(run, capsys):
    examined(capsys, str(run[0]), *COST)
    with pytest.raises(ValueError, match=r"^out/results.json is of an earlier cnnpool probe: give the run"):
        main(["out", "--probes", "cost"])


def test_options_are_read_from_text_and_samples_cap_them():
    built = build_probes("invariance,lie", ["invariance.presets=tips,aps_crop"], 100)
    assert built["invariance"].presets == ("tips", "aps_crop")
    assert (built["invariance"].samples, built["invariance"].stage_samples) == (100, 64)
    assert build_probes("all", [], None).keys() == probe.PROBES.keys()
