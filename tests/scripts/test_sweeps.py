"""The sweeps of conf/experiment, and the learning curves drawn from runs whose accuracies are known."""

import csv
import re
import shlex
from pathlib import Path

import pytest

from cnnpool.launch.compose import Request, jobs_of
from scripts.docs import sizes

EXPERIMENTS = sorted((Path(__file__).parents[2] / "conf" / "experiment").glob("*.yaml"))
JOBS = {"cifar_circular": 36, "mnist_few": 84, "mnist_operators": 12, "quickstart": 33}
ONE_SEED = ("mnist_few", "mnist_operators", "every_operator", "claims", "claims_allconv")


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_the_commands_of_an_experiment_compose(path):
    text, jobs = path.read_text("utf-8"), []
    for words in map(shlex.split, re.findall(r"^# cnnpool train (.*)", text, re.MULTILINE)):
        options = [word for word in words if word != "-m"]
        # Ten seeds are composed alike.
        options += ["seed=0"] * (path.stem in ONE_SEED)
        found = jobs_of(Request(options, multirun="-m" in words))
        assert len({job.folder for job in found}) == len(found)
        jobs += found
    assert jobs and len(jobs) == JOBS.get(path.stem, len(jobs))


ACCURACIES = {
    100: {"max": (0.80, 0.82), "avg": (0.90, 0.93)},
    10_000: {"max": (0.97, 0.98), "avg": (0.97, 0.985)},
}


def images(limit):
    return {"data": {"name": "mnist", "limit": limit}, "data_sha256": f"{limit:064}"}


@pytest.fixture
def runs(shelf):
    for limit, pools in ACCURACIES.items():
        for pool, values in pools.items():
            for seed, accuracy in enumerate(values):
                folder = f"{pool}+{limit}/seed{seed}"
                shelf.put(folder, pool=pool, seed=seed, accuracy=accuracy, **images(limit))
    return shelf


def test_each_run_of_each_size_is_written(runs, tmp_path):
    assert sizes.main(runs.root, tmp_path, "data=mnist") == 0
    written = list(csv.DictReader((tmp_path / "sizes.csv").read_text().splitlines()))
    found = {(int(row["limit"]), row["pool"], int(row["seed"]), float(row["accuracy"])) for row in written}
    assert found == {
        (limit, pool, seed, accuracy)
        for limit, pools in ACCURACIES.items()
        for pool, values in pools.items()
        for seed, accuracy in enumerate(values)
    }


def test_the_chart_has_plain_numbers(runs, tmp_path):
    sizes.main(runs.root, tmp_path)
    drawn = (tmp_path / "sizes.svg").read_text()
    assert "10,000" in drawn and "mathdefault" not in drawn


def test_a_seed_that_one_choice_lacks_is_left_out(runs, tmp_path):
    runs.put("max+100/seed2", seed=2, accuracy=0.5, **images(100))
    sizes.main(runs.root, tmp_path)
    assert "0.5\n" not in (tmp_path / "sizes.csv").read_text()
