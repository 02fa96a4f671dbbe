"""The sweeps of conf/experiment."""

import re
import shlex
from pathlib import Path

import pytest

from cnnpool.launch.compose import Request, jobs_of

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
