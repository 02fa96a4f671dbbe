"""The distribution: the wheel's content, the lock, the version and the licence."""

import hashlib
import re
import tomllib
import zipfile
from pathlib import Path

import pytest

import cnnpool

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel built by the project's own build backend."""
    builders = pytest.importorskip("hatchling.builders.wheel")
    folder = tmp_path_factory.mktemp("wheel")
    (path,) = builders.WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_wheel_carries_every_module_and_every_choice(wheel):
    modules = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("cnnpool/**/*.py")}
    choices = {f"cnnpool/{path.relative_to(ROOT).as_posix()}" for path in ROOT.glob("conf/**/*.yaml")}
    assert "cnnpool/pool/base.py" in modules and "cnnpool/conf/pool/strided.yaml" in choices
    assert modules | choices <= set(wheel.namelist())


def test_wheel_carries_nothing_else_but_its_description(wheel):
    description = f"cnnpool-{cnnpool.__version__}.dist-info/"
    assert "cnnpool/py.typed" in wheel.namelist()
    others = [name for name in wheel.namelist() if not name.endswith((".py", ".yaml", "py.typed"))]
    known = {f"cnnpool/tensorboard/page/{path.name}" for path in ROOT.glob("cnnpool/tensorboard/page/*")}
    known |= {f"cnnpool/report/templates/{path.name}" for path in ROOT.glob("cnnpool/report/templates/*")}
    known |= {"cnnpool/data/digits.csv.gz", "cnnpool/schema.json"}
    assert [name for name in others if name not in known and not name.startswith(description)] == []
    assert {"cnnpool/tensorboard/page/tab.js", "cnnpool/report/templates/blocks.html"} <= known <= set(others)
    assert not [name for name in wheel.namelist() if name.split("/")[0] not in ("cnnpool", description[:-1])]


def test_wheel_brings_the_command_and_the_licence(wheel):
    description = f"cnnpool-{cnnpool.__version__}.dist-info"
    assert "cnnpool = cnnpool.cli:main" in wheel.read(f"{description}/entry_points.txt").decode()
    assert wheel.read(f"{description}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()


def test_source_archive_carries_what_a_checkout_needs_and_no_results(tmp_path):
    builders = pytest.importorskip("hatchling.builders.sdist")
    tarfile = pytest.importorskip("tarfile")
    (path,) = builders.SdistBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with tarfile.open(path) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
    assert {"Makefile", "scripts/figures.py", "requirements.lock", "LICENSE", "CITATION.cff"} <= names
    assert {"conf/pool/strided.yaml", "tests/setup/test_package.py", "pyproject.toml", "README.md"} <= names
    assert not [name for name in names if name.startswith(("data/", ".venv", "uv.lock"))]
    assert [name for name in names if name.startswith("outputs")] == ["outputs/README.md"]


def test_version_is_the_same_in_package_and_project():
    assert cnnpool.__version__ == PROJECT["project"]["version"]
    assert f"## {cnnpool.__version__}" in (ROOT / "CHANGES.md").read_text(encoding="utf-8")
    assert f"version: {cnnpool.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_classifiers_are_known_and_name_the_pythons_that_are_asked_for():
    known = pytest.importorskip("trove_classifiers").classifiers
    found = PROJECT["project"]["classifiers"]
    assert not set(found) - known
    assert found == sorted(found)
    lowest = min(
        (one for one in found if re.search(r"3\.\d+$", one)), key=lambda one: int(one.split(".")[-1])
    )
    assert PROJECT["project"]["requires-python"] == f">={lowest.rpartition(' ')[2]}"
    assert "Typing :: Typed" in found


def test_licence_is_apache_2_to_the_letter():
    digest = hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest()
    # The sha256 of the text that the Apache Software Foundation publishes.
    assert digest == "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
    assert PROJECT["project"]["license"] == "Apache-2.0"
