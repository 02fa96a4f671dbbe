import pytest
from short_runs import STILL, steps

from cnnpool import cli


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CNNPOOL_DATA", raising=False)
    return tmp_path


@pytest.fixture
def command(capfd):
    """A function that runs a command and returns its exit status."""

    def run(*arguments):
        with pytest.raises(SystemExit) as stop:
            cli.main(list(arguments))
        return stop.value.code or 0

    return run


@pytest.fixture
def losses(command, in_a_folder):
    """A function that trains by the command line in a new folder: the logged loss of every step."""
    count = [0]

    def train(*overrides):
        count[0] += 1
        folder = in_a_folder / f"run{count[0]}"
        assert command("train", *STILL, *overrides, f"hydra.run.dir={folder}") == 0
        return steps(folder)

    return train
