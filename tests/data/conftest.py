import loopback_mirror as script
import pytest


@pytest.fixture(scope="session")
def mirror():
    """The module that serves folders on the loopback."""
    return script
