"""A finished run is known again by its settings and by what its images are, wherever they lie."""

import csv
import errno
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from cnnpool.data import DATASETS, Digits, ImageFolder
from cnnpool.data.published import Published
from cnnpool.launch import run_job
from cnnpool.launch.compose import Request, jobs_of
from cnnpool.launch.job import Job
from cnnpool.run_folder.checkpoint import load

FOLDER = "hydra.run.dir=here"


@pytest.fixture(autouse=True)
def each_command_reads_anew():
    yield
    run_job.look_again()


def photos(root, colour):
    for part, count in (("train", 8), ("test", 2)):
        for shade, name in enumerate(("ant", "bee")):
            (root / part / name).mkdir(parents=True)
            for index in range(count):
                pixels = np.full((28, 28, 3), 20 * index, np.uint8)
                pixels[..., colour] = 90 * shade + 9 * index + 1
                Image.fromarray(pixels).save(root / part / name / f"{index}.png")


@pytest.fixture
def train(call):
    def run(root, *more):
        run_job.look_again()
        return call("train", *call.quick[1:], FOLDER, "data=image_folder", f"data.root={root}", *more)

    return run


def test_the_same_images_elsewhere_are_the_same_run(train, tmp_path):
    photos(tmp_path / "insects", 0)
    assert train("insects")[0] == 0
    (tmp_path / "insects").rename(tmp_path / "moved")
    status, out, err = train("moved")
    assert (status, err) == (0, "") and "is finished already" in out


def test_images_that_changed_or_are_gone_are_not_taken_for_those_of_the_run(train, tmp_path):
    photos(tmp_path / "insects", 0)
    assert train("insects")[0] == 0
    Image.new("RGB", (28, 28), "white").save(tmp_path / "insects" / "test" / "bee" / "0.png")
    status, _, err = train("insects")
    assert status == 2 and "holds a finished run on other data (data_sha256: " in err
    shutil.rmtree(tmp_path / "insects")
    status, _, err = train("insects")
    assert status == 2 and "whose data cannot be compared: cannot read" in err and err.count("\n") == 1
    assert json.loads((tmp_path / "here" / "status.json").read_text())["state"] == "done"


def test_limited_images_are_the_same_run_again(train, tmp_path, monkeypatch):
    photos(tmp_path / "insects", 0)
    assert train("insects", "data.limit=8")[0] == 0
    assert "is finished already" in train("insects", "data.limit=8")[1]
    monkeypatch.setattr("cnnpool.data.identity", lambda **_: Path("gone").read_bytes())
    assert "error: gone: No such file or directory; fix that" in train("insects", "data.limit=8")[2]


def test_published_sets_are_those_whose_content_their_name_says():
    fixed = {name for name, kind in DATASETS.items() if issubclass(kind, Published | Digits)}
    assert fixed == run_job.PUBLISHED and not issubclass(ImageFolder, Published)
    # Such a run needs no images to be known again.
    assert run_job.other_data(SimpleNamespace(data_sha256="other"), {"data": {"name": "mnist"}}) == []


def test_an_error_of_the_disk_names_its_file_or_else_the_folder(tmp_path):
    job = Job(tmp_path, [], {})
    for name, path in (("x.ckpt", "x.ckpt"), (None, tmp_path)):
        outcome = run_job.failed(job, OSError(errno.EIO, "Input/output error", name))
        assert (
            outcome.message == f"{path}: Input/output error; fix that, then rerun the same command to resume"
        )


def test_a_folder_of_a_measured_network_takes_no_training(call, in_a_folder):
    assert call("train", *call.quick, "hydra.run.dir=trained")[0] == 0
    assert call("probe", "trained", "--probes=aliasing", "--samples=4", "--out=here")[0] == 0
    said = f"{in_a_folder / 'here'} holds results without a training: choose another folder by out="
    assert call.refused(*call.quick, FOLDER) == f"error: {said}\n"


def test_more_epochs_at_a_constant_rate_go_on_to_the_bits_of_a_longer_run(call, tmp_path):
    words = [*call.quick[1:], "data.limit=192", "data.batch_size=64"]
    words += ["fit.schedule=constant", "fit.warmup=0", "fit.max_steps=null"]

    def trained(folder, epochs):
        status, out, err = call("train", *words, f"hydra.run.dir={folder}", f"fit.epochs={epochs}")
        assert (status, err) == (0, "")
        return out, load(tmp_path / folder / "checkpoints" / "last.ckpt")["state_dict"]

    _, whole = trained("whole", 3)
    trained("parts", 1)
    said, parts = trained("parts", 3)
    assert "holds 1 of 3 epochs" in said and "epoch 3" in said
    assert all(torch.equal(value, parts[name]) for name, value in whole.items())
    found = [json.loads((tmp_path / folder / "results.json").read_text()) for folder in ("whole", "parts")]
    assert found[0]["epochs"] == found[1]["epochs"] == 3 and found[0]["test"] == found[1]["test"]
    assert "is finished already" in trained("parts", 3)[0]
    assert "fit.epochs: 3 -> 2" in call.refused(*words, "hydra.run.dir=parts", "fit.epochs=2")


def test_a_log_that_is_chosen_later_gets_the_history_once(call, in_a_folder, monkeypatch):
    words = ["train", *call.quick, "fit.max_steps=2", FOLDER]
    assert call(*words)[0] == 0
    here = in_a_folder / "here"
    kept = {path: path.read_bytes() for path in (here / "results.json", here / "metrics.jsonl")}
    monkeypatch.setattr("cnnpool.training.train", None)
    monkeypatch.setattr("cnnpool.data.build", None)
    status, out, err = call(*words, "log=csv")
    said = [json.loads(line) for line in (here / "metrics.jsonl").read_text().splitlines()]
    assert (status, err) == (0, "") and out.count("\n") == 5
    assert f"log=csv has the history of this run now ({len(said)} records)\n" in out
    with (here / "csv" / "metrics.csv").open(newline="") as file:
        rows = [{tag: float(value) for tag, value in row.items() if value} for row in csv.DictReader(file)]
    assert {row["step"]: row for row in rows}[said[-1]["step"]]["test/accuracy"] == said[-1]["test/accuracy"]
    assert {tag for row in rows for tag in row} == {tag for record in said for tag in record}
    before = (here / "csv" / "metrics.csv").stat()
    assert "log=csv" not in call(*words, "log=[tensorboard,csv]")[1]
    assert (here / "csv" / "metrics.csv").stat() == before
    shutil.rmtree(here / "csv")
    assert "log=csv has the history" in call(*words, "log=csv")[1] and (here / "csv" / "metrics.csv").exists()
    assert kept == {path: path.read_bytes() for path in kept}


def test_a_log_that_cannot_be_opened_leaves_the_finished_run_alone(call, in_a_folder, monkeypatch):
    def refuse(*_, **__):
        raise OSError("no route to host\nand more")

    words = ["train", *call.quick, "fit.max_steps=1", FOLDER]
    assert call(*words)[0] == 0
    with monkeypatch.context() as patch:
        patch.setattr("cnnpool.fit.loggers.CSVLogger", refuse)
        status, _, err = call(*words, "log=csv")
    assert (status, err) == (2, "error: log=csv cannot be opened: no route to host\n")
    assert json.loads((in_a_folder / "here" / "status.json").read_text())["state"] == "done"
    assert not (in_a_folder / "here" / "logged.json").exists()
    # Launchers start no job that is done, and this one is not.
    plain, late = (jobs_of(Request([*words[1:], *more]))[0] for more in ((), ("log=csv",)))
    assert run_job.outcome_if_done(plain).state == "done" and run_job.outcome_if_done(late) is None
