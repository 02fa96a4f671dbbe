"""Studies whose runs cost no training: a runner that writes the results that a test wants."""

from dataclasses import replace

import pytest

from cnnpool.choose.candidates import Arm, Network
from cnnpool.choose.drive import Clock, Driver
from cnnpool.choose.ledger import Ledger
from cnnpool.choose.options import Options
from cnnpool.choose.study import Study
from cnnpool.launch.job import Outcome
from cnnpool.quantity import fraction, records
from cnnpool.report.measure import Measure
from cnnpool.run_folder.results import Results, write
from cnnpool.run_folder.results import read as read_results

ACCURACY = fraction("val.accuracy", "val accuracy", "Share of images.", better="higher")
FLOPS = {"max": 100, "avg": 110, "strided": 200, "subsample": 90}


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CNNPOOL_DATA", raising=False)
    return tmp_path


class Bench:
    """Runs jobs by writing what ``accuracy(pool, seed)`` says, and remembers which ones it ran.

    Args:
        accuracy: of (pool, seed, settings) a number, or an exception to fail with.
        seconds: that a run says it took.
        flops: of a network with each pool; None where the runs have no probe of cost.
    """

    def __init__(self, accuracy, seconds=1.0, flops=FLOPS):
        self.accuracy, self.seconds, self.flops, self.ran = accuracy, seconds, flops, []

    def __call__(self, jobs):
        for job in jobs:
            pool, seed = job.settings["pool"]["name"], job.settings["seed"]
            self.ran.append((pool, seed))
            value = self.accuracy(pool, seed, job.settings)
            if isinstance(value, Exception):
                yield Outcome(job.name, "failed", str(value), 1, job.folder)
                continue
            yield self.leave(job, pool, seed, value)

    def leave(self, job, pool, seed, value):
        job.folder.mkdir(parents=True)
        measured = {
            "val": {"accuracy": value, "loss": 0.1},
            "test": {"accuracy": value / 2, "loss": 0.1},
            "cost": {"wall_s": self.seconds} | ({"flops": self.flops[pool]} if self.flops else {}),
        }
        rooms = {"pool": {"name": pool}, "readout": {"name": "flatten"}, "model": {"name": "convnet"}}
        facts = Results(**rooms, data={"name": "digits"}, seed=seed, measured=measured)
        write(job.folder, replace(facts, quantities=records([ACCURACY], measured)))
        assert read_results(job.folder)
        return Outcome(job.name, "done", "", 0, job.folder)


@pytest.fixture
def bench():
    return Bench


@pytest.fixture
def make_study(tmp_path):
    """A function from options to a study of digits below a folder; the same folder goes on."""

    def make(name="study", overrides=("data=digits",), **options):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        options = Options(**({"pools": ("max", "avg"), "budget": "1h", "rounds": 8} | options))
        network = Network(tuple(overrides))
        arms = [Arm(label, network, folder / "runs") for label in options.pools]
        ledger = Ledger(folder=folder, design={})
        settings = {"data": {"name": "digits", "root": "data"}, "model": {"name": "convnet"}}
        metric = Measure("val.accuracy", ACCURACY)
        return Study(options, metric, arms, ledger, network.first_seed, settings=settings)

    return make


@pytest.fixture
def drive():
    """A function that runs a study by a bench: (view, reason, what was watched)."""

    def run(study, bench):
        watched = []
        with Clock(study, lambda: None) as clock:
            view, reason = Driver(
                study, clock, lambda view, batch: watched.append((view, batch)), bench
            ).drive()
        return view, reason, watched

    return run
