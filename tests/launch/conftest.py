import json

import pytest

from cnnpool import cli

QUICK = [
    "data.limit=64", "model.width=2", "fit.epochs=1", "fit.pictures=false", "fit.progress=false",
    "probe=none",
]  # fmt: skip


@pytest.fixture
def call(capfd):
    """A function that runs one command in this process: (status, stdout, stderr).

    ``quick`` trains fast; ``refused`` is the line of a training that is a mistake.
    """

    def run(*arguments):
        with pytest.raises(SystemExit) as stop:
            cli.main(list(arguments))
        out, err = capfd.readouterr()
        return stop.value.code or 0, out, err

    def refused(*arguments):
        status, _, err = run("train", *arguments)
        assert status == 2 and err.count("\n") == 1, err
        return err

    run.quick, run.refused = QUICK, refused
    return run


@pytest.fixture
def states():
    """A function: the state of every run below a folder, by its pool."""

    def read(folder):
        found = {}
        for path in folder.rglob("status.json"):
            found[path.parts[-3].split("+")[0]] = json.loads(path.read_text())["state"]
        return found

    return read


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CNNPOOL_DATA", raising=False)
    return tmp_path
