"""The distribution: the wheel's content, the lock, the version, the licence, the wheel installed alone."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import cnnpool
from cnnpool import schema
from cnnpool.cli import COMMANDS

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
    known = {f"cnnpool/tensorboard/tab.{kind}" for kind in ("html", "js")}
    known |= {f"cnnpool/report/templates/{path.name}" for path in ROOT.glob("cnnpool/report/templates/*")}
    known |= {"cnnpool/data/digits.csv.gz", "cnnpool/schema.json"}
    assert [name for name in others if name not in known and not name.startswith(description)] == []
    assert {"cnnpool/tensorboard/tab.js", "cnnpool/report/templates/blocks.html"} <= known <= set(others)
    assert not [name for name in wheel.namelist() if name.split("/")[0] not in ("cnnpool", description[:-1])]


def built(folder):
    builders = pytest.importorskip("hatchling.builders.wheel")
    (path,) = builders.WheelBuilder(str(folder)).build(directory=str(folder / "dist"), versions=["standard"])
    with zipfile.ZipFile(path) as archive:
        return archive.read("cnnpool/schema.json") if "cnnpool/schema.json" in archive.namelist() else None


def test_wheel_carries_the_options_that_are_known_even_where_torch_is_not(wheel, tmp_path):
    carried = wheel.read("cnnpool/schema.json")
    assert carried == schema.file().read_bytes() and schema.digest() in carried.decode()
    for path in ("cnnpool", "conf", "scripts", "docs"):
        shutil.copytree(ROOT / path, tmp_path / path, ignore=shutil.ignore_patterns("__pycache__", "*.png"))
    for path in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / path, tmp_path)
    (tmp_path / "torch.py").write_text("raise ImportError")
    assert built(tmp_path) is None
    (tmp_path / "cnnpool" / "__pycache__").mkdir(exist_ok=True)
    (tmp_path / "cnnpool" / "__pycache__" / "schema.json").write_bytes(carried)
    assert built(tmp_path) == carried
    # As a source archive has it.
    (tmp_path / "cnnpool" / "__pycache__" / "schema.json").rename(tmp_path / "cnnpool" / "schema.json")
    assert built(tmp_path) == carried
    # Of other sources.
    (tmp_path / "cnnpool" / "cli.py").write_text("")
    (tmp_path / "cnnpool" / "schema.json").unlink()
    assert built(tmp_path) is None


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
    assert "cnnpool/schema.json" in names
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
    lowest = min(int(one.rpartition(".")[2]) for one in found if re.search(r"3\.\d+$", one))
    assert PROJECT["project"]["requires-python"] == f">=3.{lowest}"
    assert "Typing :: Typed" in found


def test_licence_is_apache_2_to_the_letter():
    digest = hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest()
    # The sha256 of the text that the Apache Software Foundation publishes.
    assert digest == "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
    assert PROJECT["project"]["license"] == "Apache-2.0"


KNOWN_BAD = {
    "lightning": {"2.6.2", "2.6.3"},  # malware: GHSA-w37p-236h-pfx3
    "pytorch-lightning": {"2.6.2", "2.6.3"},
    "hydra-core": {"1.2.0", *(f"1.3.{n}" for n in range(8))},  # CVE-2026-68508, -106439, -106441
    "torch": {"2.5.0", "2.5.1"},  # CVE-2025-32434: code is run in spite of weights_only
}


def pinned():
    text = (ROOT / "requirements.lock").read_text()
    return re.findall(r"^([\w.-]+)==([^\s;\\]+)(.*(?:\n    .*)*)", text, re.MULTILINE)


def test_the_lock_hashes_every_file_of_the_index_and_has_no_release_known_to_be_bad():
    assert len(pinned()) > 50
    assert [name for name, _, rest in pinned() if "--hash=sha256:" not in rest] == []
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    assert [line for line in lines if "://" in line or line.startswith("-")] == []
    assert [(name, v) for name, v, _ in pinned() if v in KNOWN_BAD.get(name, ())] == []


def test_the_lock_satisfies_the_project_which_leaves_the_known_bad_out():
    groups = [one for group in PROJECT["dependency-groups"].values() for one in group if isinstance(one, str)]
    asked = [*PROJECT["project"]["dependencies"], *groups, *PROJECT["build-system"]["requires"]]
    locked = {name: version for name, version, _ in pinned()}
    for requirement in map(Requirement, asked):
        name = requirement.name.lower()
        assert locked[name] in requirement.specifier
        assert list(requirement.specifier.filter(KNOWN_BAD.get(name, ()))) == []


LIMIT_S = 400
HELP = """
from contextlib import suppress
from cnnpool.cli import COMMANDS, main
for command in COMMANDS:
    with suppress(SystemExit):
        main([command, "--help"])
"""
PROGRAM = """
import torch
import cnnpool
assert ".venv" not in cnnpool.__file__ and "site-packages" in cnnpool.__file__, cnnpool.__file__
x = torch.arange(16.0).view(1, 1, 4, 4)
assert cnnpool.max_pool2d(x, 2).flatten().tolist() == [5.0, 7.0, 13.0, 15.0]
assert cnnpool.avg_pool2d(x, 4).item() == 7.5
"""


class Bare:
    """An environment with the wheel and what it asks for, an empty home and an empty working directory."""

    def __init__(self, environment, home, folder):
        self.bin, self.home, self.folder = environment / "bin", home, folder

    def run(self, program, *arguments):
        """Standard output; fails with all that was printed if the status is not 0."""
        done = subprocess.run(
            [self.bin / program, *arguments], cwd=self.folder,
            env={"HOME": str(self.home), "PATH": os.defpath, "OMP_NUM_THREADS": "1"}, capture_output=True,
            text=True, timeout=LIMIT_S
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def uv(*arguments):
    """Run the locked uv without a network; skips the test if it does not succeed."""
    program = Path(sys.executable).with_name("uv")
    if not program.is_file():
        pytest.skip("uv is not installed: make setup")
    done = subprocess.run([program, "--offline", *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"uv {arguments[0]} without a network: {' '.join(done.stderr.split())[:300]}")
    return done.stdout.strip()


@pytest.fixture(scope="module")
def bare(tmp_path_factory, wheel):
    """The wheel, with the locked versions of its dependencies from uv's cache; no development tools."""
    root = tmp_path_factory.mktemp("bare")
    cache = Path(uv("cache", "dir"))
    if not cache.is_dir() or cache.stat().st_dev != root.stat().st_dev:
        pytest.skip(f"uv's cache {cache} is not on the disk of {root}: gigabytes would be copied")
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    (root / "versions.txt").write_text("\n".join(re.findall(r"^[a-z0-9][^\\\n]*", lock, re.MULTILINE)))
    environment = root / "environment"
    uv("venv", "--quiet", "--python", sys.executable, environment)
    python = environment / "bin" / "python"
    uv("pip", "install", "--quiet", "--python", python, "--constraint", root / "versions.txt", wheel.filename)
    for name in ("home", "folder"):
        (root / name).mkdir()
    yield Bare(environment, root / "home", root / "folder")
    shutil.rmtree(environment)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the paths are those of other systems")
def test_an_installed_wheel_trains_and_compares(bare):
    assert bare.run("cnnpool", "--version") == f"cnnpool {cnnpool.__version__}\n"
    said = bare.run("python", "-c", HELP)
    assert all(f"usage: cnnpool {command}" in said for command in COMMANDS)
    # They read that of the wheel.
    assert not [*bare.home.rglob("schema.json"), *bare.bin.parent.rglob("cnnpool/__pycache__/schema.json")]
    assert not (bare.bin / "pytest").exists()
    bare.run("python", "-c", PROGRAM)
    bare.run("cnnpool", "train", "-m", "data=digits", "pool=max", "seed=0", "fit=smoke")
    said = bare.run("cnnpool", "compare", "outputs")
    assert "test accuracy" in said and (bare.folder / "outputs/report/report.html").is_file()
