"""The package of docs/own_operator.md, installed as users install it, through every door."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import cnnpool
from cnnpool import explain, registry
from cnnpool.bench import pool as bench
from cnnpool.choose.candidates import Network
from cnnpool.inspection import main as examine
from cnnpool.launch.compose import Request, jobs_of
from scripts.docs.documented import commands

PAGE = Path(__file__).parents[2] / "docs" / "own_operator.md"
FILES = re.compile(r"^```\w+\n# (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
QUICK = ("data=stripes", "data.images=40", "data.batch_size=8", "fit.precision=32-true", "fit.pictures=false")
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*is deprecated"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder into which pip has installed the package."""
    source = tmp_path_factory.mktemp("source")
    for name, text in FILES.findall(PAGE.read_text(encoding="utf-8")):
        path = source / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (source / "my_package" / "__init__.py").touch()
    target = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*pip, "--target", target, source], check=True, capture_output=True)
    return target


@pytest.fixture(autouse=True)
def installed(site, monkeypatch):
    monkeypatch.syspath_prepend(site)
    registry._foreign.cache_clear()
    yield
    registry._foreign.cache_clear()


@pytest.fixture
def midrange():
    from my_package.pooling import MidrangePool2d

    return MidrangePool2d


def kinds(model):
    return [type(module).__name__ for module in model.modules()]


def small():
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3, stride=2), *head)


def test_a_built_in_network_trains_with_one_of_each(command, in_a_folder):
    chosen = ["model.width=2", "readout=spread", "readout.weight=0.5", "pool@stage.s2=midrange", *QUICK]
    halted = ["callback=[halt,early_stopping]", "callback.halt.after_steps=2", "hydra.run.dir=run"]
    assert command("train", *chosen, *halted, "log=[lines,csv]", "log.file=all.txt") == 0
    assert "1 train/loss" in (in_a_folder / "run" / "all.txt").read_text()
    assert (in_a_folder / "run" / "csv" / "metrics.csv").is_file()
    found = json.loads((in_a_folder / "run" / "results.json").read_text())
    assert found["stages"]["s2"] == {"name": "midrange", "stride": 2} and found["steps"] == 2
    assert found["readout"] == {"name": "spread", "weight": 0.5} and found["data"]["images"] == 40
    assert found["asked"]["callback"]["halt"] == {"after_steps": 2}
    # A tenth of the training images validates, where the class says nothing.
    assert [sum(found["images"][split]) for split in ("train", "val", "test")] == [36, 4, 40]
    assert {"MidrangePool2d", "Spread"} <= {*kinds(cnnpool.load("run"))}
    assert examine(["run", "--swap", "midrange", "--samples", "8", "--probes", "cost"]) == 0


def test_a_network_is_swept_over_its_options_recorded_and_loaded(command, in_a_folder):
    swept = ["-m", "model=small", "model.width=2,3", "pool=midrange", "probe=none", "fit.max_steps=2"]
    assert command("train", *swept, *QUICK, "out=all") == 0
    runs = {path: json.loads(path.read_text()) for path in in_a_folder.glob("all/*/small/**/results.json")}
    for width in (2, 3):
        (folder,) = (path.parent for path, found in runs.items() if found["model"]["width"] == width)
        assert runs[folder / "results.json"]["model"]["arch"] == "small"
        network = cnnpool.load(folder).model.network
        assert network[0].out_channels == width and type(network[2]).__name__ == "MidrangePool2d"
    named = ["model=my_package.nets:small", "model.width=2", "pool=midrange", "fit.max_steps=1"]
    assert command("train", *named, "probe=none", *QUICK, "hydra.run.dir=run") == 0
    found = json.loads((in_a_folder / "run" / "results.json").read_text())
    assert found["model"]["arch"] == "my_package.nets:small" and found["pool"]["name"] == "midrange"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("model=small model.width=0", "model.width must be a whole number, at least 1, got 0"),
        ("pool=midrange pool.stride=0", "pool.stride must be a whole number, at least 1, got 0"),
        ("log=lines log.file=3", "log.file must be a text, got 3"),
        ("callback=halt callback.halt.after_steps=x", "after_steps must be a whole number, at least 1"),
        ("model=my_package.nets:smal", "no network named 'my_package.nets:smal'; choose from small"),
        ("model=small model.heigth=3", "unknown key 'model.heigth'"),
    ],
)
def test_a_mistake_in_an_option_is_one_line_before_anything_runs(line, said):
    with pytest.raises(ValueError, match=said):
        jobs_of(Request(line.split()))


def test_published_networks_take_them_by_every_door(midrange):
    overrides = ["model=torchvision:resnet18", "pool=midrange", "readout=spread", *QUICK, "data.images=40"]
    assert kinds(cnnpool.classifier(*overrides)).count("MidrangePool2d") == 6
    for operator in ("midrange", midrange):
        (first, second) = cnnpool.swap(small(), operator, example=torch.zeros(1, 3, 16, 16))
        assert type(first.after) is type(second.after[1]) is midrange
    (change,) = cnnpool.swap(small(), "spread", example=torch.zeros(1, 3, 16, 16), weight=2)
    assert change.after[0].weight == 2
    with pytest.raises(ValueError, match="not an operator: derive it from cnnpool"):
        cnnpool.swap(small(), nn.MaxPool2d, example=torch.zeros(1, 3, 16, 16))


def test_timm_makes_its_networks_with_the_class(midrange):
    timm = pytest.importorskip("timm")
    model = timm.create_model("test_resnet", aa_layer=midrange)
    assert "MidrangePool2d" in kinds(model)
    assert model(torch.zeros(1, 3, 64, 64)).shape == (1, 1000)


def test_it_is_explained_timed_and_a_candidate(capsys):
    assert explain.main(["midrange", "--values", "1 3; 4 8"]) == 0
    assert "4.5" in capsys.readouterr().out
    [case, *_] = bench.cases("small", ["midrange"])
    row = bench.measure(case, 3)
    assert row["rival"] == "F.max_pool2d, another operator" and row["ms"]["ours"] > 0
    settings = Network(("data=stripes",)).checked("midrange+stride=2")
    assert settings["pool"] == {"name": "midrange", "stride": 2}


def test_the_commands_of_the_page_are_valid():
    shown = [one.words[2:] for one in commands(PAGE) if one.text.startswith("cnnpool train")]
    assert len(shown) > 5
    for words in shown:
        overrides = [word for word in words if word != "-m"]
        assert jobs_of(Request(overrides, multirun="-m" in words))


SEARCH = """
import cnnpool, optuna
from my_package.scores import Sharp

def objective(trial):
    pool = trial.suggest_categorical("pool", ["max", "midrange"])
    width = trial.suggest_int("model.width", 2, 3)
    settings = {"pool": pool, "model": "small", "model.width": width, "fit.max_steps": 2, "out": "search"}
    return cnnpool.train(*QUICK, "probe=none", settings, classifier=Sharp).val.accuracy

study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=0))
study.optimize(objective, n_trials=2)
"""


@pytest.mark.filterwarnings("ignore")  # Of Optuna, at its import.
def test_python_takes_its_loss_logger_and_callback_and_optuna_searches(in_a_folder):
    from my_package.scores import Lines, Sharp
    from my_package.training import halt

    settings = {"model": "small", "readout": "keep", "pool": "midrange", "probe": "none", "out": "python"}
    own = {"callbacks": [halt(after_steps=2)], "loggers": [Lines(in_a_folder / "lines.txt")]}
    results = cnnpool.train(*QUICK, settings, classifier=Sharp, **own)
    assert results.steps == 2 and "train/loss" in (in_a_folder / "lines.txt").read_text()
    network = cnnpool.load(in_a_folder / "python" / results.run, classifier=Sharp)
    assert "MidrangePool2d" in kinds(network) and type(network) is Sharp
    known = {"QUICK": QUICK}
    exec(SEARCH, known)
    assert len(known["study"].trials) == 2 and 0 <= known["study"].best_value <= 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_notebook_finds_it_and_runs_the_page_a_search_and_a_comparison(site, in_a_folder, monkeypatch):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    (page,) = [one.text for one in commands(PAGE) if one.program and not one.text.startswith("# my_package")]
    cells = [page, f"QUICK = {QUICK!r}\n{SEARCH}", "cnnpool.compare('search', 'val.accuracy')"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    monkeypatch.setenv("PYTHONPATH", str(site))
    where = {"metadata": {"path": str(in_a_folder)}}
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", resources=where).execute()
    assert "Val accuracy (1 seed; max" in notebook.cells[-1].outputs[-1]["data"]["text/plain"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Of Optuna, at its import.
def test_a_sweeper_of_hydras_chooses_among_them(command, capfd):
    pytest.importorskip("hydra_plugins.hydra_optuna_sweeper", reason="needs hydra-optuna-sweeper")
    words = ["-m", "hydra/sweeper=optuna", "hydra.sweeper.n_trials=2", "pool=choice(midrange)"]
    words += ["+hydra.sweeper.params.readout=choice(spread)", "model.width=2", "probe=none", "out=run"]
    assert command("train", *words, *QUICK, "fit.max_steps=1") == 0
    assert "Best parameters: {'pool': 'midrange', 'readout': 'spread'}" in "".join(capfd.readouterr())
