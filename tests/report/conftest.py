import pytest
from shelf import shelf

from cnnpool.report import plots
from cnnpool.system import progress

__all__ = ["shelf"]


@pytest.fixture(autouse=True)
def _no_progress(monkeypatch):
    """On a busy machine a comparison takes long enough to say how far it has come, which is no output."""
    monkeypatch.setattr(progress, "SILENT_S", 3600.0)


@pytest.fixture
def figures():
    """The command draws its figures."""


@pytest.fixture(autouse=True)
def _no_figures(request, monkeypatch):
    """Drawing takes nine tenths of a report's time: the command draws only for tests that ask for it."""
    if "figures" not in request.fixturenames:
        monkeypatch.setattr(plots, "draw", lambda comparison: iter(()))
