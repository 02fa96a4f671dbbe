import runpy
from pathlib import Path

import pytest

from cnnpool.launch.compose import Request, jobs_of

SCRIPT = Path(__file__).parents[2] / "scripts" / "docs" / "sweeps.py"
JOBS = {"mnist_operators": 120, "mnist_few": 840, "cifar_circular": 36}


def test_every_sweep_has_its_number_of_runs():
    assert runpy.run_path(str(SCRIPT))["SWEEPS"].keys() == JOBS.keys()


@pytest.mark.parametrize("name", JOBS)
def test_a_sweep_composes(name, capsys):
    commands = runpy.run_path(str(SCRIPT))["SWEEPS"][name]
    jobs = [
        job
        for options in commands
        for job in jobs_of(Request((f"experiment={name}", *options), multirun=True))
    ]
    assert len(jobs) == JOBS[name] and not any(job.mistake for job in jobs)
    assert len({job.folder for job in jobs}) == len(jobs)


def test_an_unknown_sweep_is_refused():
    main = runpy.run_path(str(SCRIPT))["main"]
    with pytest.raises(SystemExit, match="no sweep 'nosuch'; choose from mnist_operators"):
        main(["nosuch"])
