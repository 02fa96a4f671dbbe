import importlib.util
from pathlib import Path

import pytest

MIRROR = Path(__file__).parents[2] / "scripts" / "docs" / "mirror.py"


@pytest.fixture(scope="session")
def mirror():
    """The script that publishes small data sets, and serves folders, on the loopback."""
    spec = importlib.util.spec_from_file_location("mirror", MIRROR)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
