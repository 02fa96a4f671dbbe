"""Studies whose runs cost no training: a runner that writes the results that a test wants."""

import pytest
from short_studies import ACCURACY, Bench, shared_jobs_of

from cnnpool.choose import candidates
from cnnpool.choose.candidates import Arm, Network
from cnnpool.choose.drive import Clock, Driver
from cnnpool.choose.ledger import Ledger
from cnnpool.choose.options import Options
from cnnpool.choose.study import Study
from cnnpool.quantity import count
from cnnpool.report.measure import Measure

FLOPS = count("cost.flops", "FLOPs", "Arithmetic.", better="lower")


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CNNPOOL_DATA", raising=False)
    return tmp_path


@pytest.fixture(autouse=True)
def _composed_once(request, monkeypatch):
    if request.path.stem != "test_candidates":
        monkeypatch.setattr(candidates, "jobs_of", shared_jobs_of)


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
        metric, cost = Measure("val.accuracy", ACCURACY), Measure("cost.flops", FLOPS)
        return Study(options, metric, cost, arms, ledger)

    return make


@pytest.fixture
def drive():
    """A function that runs a study by a bench: (view, reason, what was watched)."""

    def run(study, bench):
        watched = []
        with Clock(study) as clock:
            view, reason = Driver(
                study, clock, lambda view, batch: watched.append((view, batch)), bench
            ).drive()
        return view, reason, watched

    return run
