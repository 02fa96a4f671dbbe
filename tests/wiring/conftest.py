import numpy as np
import pytest
from PIL import Image
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
def photographed(in_a_folder):
    """A function that fills a folder with ``count`` images of two classes, each ``more`` rows higher."""

    def write(name, count, rows, columns, more=0):
        random = np.random.default_rng(0)
        for number in range(count):
            path = in_a_folder / name / "ab"[number % 2] / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            pixels = random.integers(0, 256, (rows + more * number, columns, 3), np.uint8)
            Image.fromarray(pixels).save(path)
        return in_a_folder / name

    return write


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
