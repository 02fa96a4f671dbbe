"""A first run where there is nothing: no data, no caches, an empty home, and a mirror on the loopback."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cnnpool.data import MNIST
from scripts.docs.small_data import publish

pytestmark = pytest.mark.slow
REPOSITORY = Path(__file__).parents[2]
NAMES = ("mnist", "fashion_mnist", "cifar10", "cifar100")
CHECKED = "fit=smoke", "fit.max_steps=1", "probe=none"


@pytest.fixture(scope="module")
def published(mirror, tmp_path_factory):
    """(address, digests) of a mirror of all downloadable data sets."""
    folder = tmp_path_factory.mktemp("mirror")
    constants = publish(folder)
    with mirror.serve(folder) as url:
        yield url, constants


@pytest.fixture
def train(mirror, tmp_path):
    """A function that runs ``cnnpool train`` in a fresh process, an empty folder and an empty home."""
    home = tmp_path / "home"
    home.mkdir()
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("CNNPOOL_", "XDG_", "NUMBA_"))}
    environment = {
        **kept,
        "HOME": str(home),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(REPOSITORY),
        "no_proxy": "*",
    }

    def run(constants, *arguments):
        mirror.write_constants(tmp_path / "constants.json", constants)
        return subprocess.run(
            [sys.executable, mirror.__file__, str(tmp_path / "constants.json"), "train", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def results(folder: Path) -> dict:
    return {path.parent.name: json.loads(path.read_text()) for path in folder.rglob("results.json")}


@pytest.mark.parametrize("name", NAMES)
def test_a_first_run_downloads_checks_and_trains(mirror, published, train, tmp_path, name):
    url, constants = published
    done = train(mirror.at(url, constants), f"data={name}", "pool=max", *CHECKED)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    (found,) = results(tmp_path / "outputs").values()
    assert found["data"]["name"] == name and found["steps"] == 1
    leftovers = [path.name for path in (tmp_path / "data").rglob("*.part")]
    assert not leftovers


@pytest.mark.parametrize("launch", ["local", "processes"])
def test_the_jobs_of_a_first_sweep_share_one_download(mirror, published, train, tmp_path, launch):
    url, constants = published
    arguments = ("-m", "data=mnist", "pool=max,avg", f"launch={launch}", *CHECKED)
    done = train(mirror.at(url, constants), *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 jobs: 2 done" in done.stdout
    said = done.stdout + done.stderr
    said += "".join(path.read_text() for path in (tmp_path / "outputs").rglob("output.log"))
    assert said.count("downloading") == len(MNIST.md5)
    assert len(list((tmp_path / "outputs").rglob("results.json"))) == 2


def closed() -> str:
    """An address where nobody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{found.getsockname()[1]}"


def refused(mirror, url, constants, name):
    return mirror.at(closed(), constants)


def truncated(mirror, url, constants, name):
    return mirror.at(f"{url}/cut", constants)


def not_found(mirror, url, constants, name):
    return mirror.at(f"{url}/nowhere", constants)


def changed(mirror, url, constants, name):
    key = "md5" if "mnist" in name else "archive_md5"
    wrong = dict.fromkeys(constants[name].get("md5", ()), "0" * 32) or "0" * 32
    return mirror.at(url, constants | {name: constants[name] | {key: wrong}})


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (refused, "Connection refused"),
        (truncated, "it ended after"),
        (not_found, "HTTP Error 404"),
        (changed, f"its MD5 is not {'0' * 32}"),
    ],
)
def test_a_download_that_fails_is_one_line(mirror, published, train, tmp_path, name, fault, words):
    done = train(fault(mirror, *published, name), f"data={name}", "pool=max", *CHECKED)
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("downloading")]
    assert line.startswith("error: cannot download") and words in line
    assert "by hand" in line and "data.root=FOLDER" in line
    assert not results(tmp_path / "outputs")
    assert not [path for path in (tmp_path / "data").rglob("*") if path.suffix in (".gz", ".part")]


def test_a_sweep_without_a_network_tries_and_says_once_what_all_jobs_lack(mirror, published, train, tmp_path):
    arguments = ("-m", "data=mnist", "pool=max,avg", "launch=processes", "launch.jobs=1", *CHECKED)
    done = train(refused(mirror, *published, "mnist"), *arguments)
    assert done.returncode == 2
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1 and "seed0 and 1 more: cannot download" in errors[0]
    assert "Connection refused" in errors[0]
    assert "Traceback" not in done.stdout + done.stderr
    assert len(list(tmp_path.rglob("output.log"))) == 1, "the second job did not start"
