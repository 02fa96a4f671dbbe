import pytest

from scripts.docs import mirror as script


@pytest.fixture(scope="session")
def mirror():
    """The script that serves folders on the loopback, and runs ``cnnpool`` on what they hold."""
    return script
