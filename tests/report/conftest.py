import pytest
from shelf import new_shelf, shelf

from cnnpool.system import progress

__all__ = ["new_shelf", "shelf"]


@pytest.fixture(autouse=True)
def _no_progress(monkeypatch):
    """On a busy machine a comparison takes long enough to say how far it has come, which is no output."""
    monkeypatch.setattr(progress, "SILENT_S", 3600.0)
