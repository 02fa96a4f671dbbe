"""The wheel, installed alone in an environment and a home of its own, runs the commands and imports."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cnnpool

ROOT = Path(__file__).parents[2]
LIMIT_S = 400
PROGRAM = """
import torch
import cnnpool
assert ".venv" not in cnnpool.__file__ and "site-packages" in cnnpool.__file__, cnnpool.__file__
x = torch.arange(16.0).view(1, 1, 4, 4)
assert cnnpool.max_pool2d(x, 2).flatten().tolist() == [5.0, 7.0, 13.0, 15.0]
assert cnnpool.avg_pool2d(x, 4).item() == 7.5
"""

pytestmark = pytest.mark.slow


class Bare:
    """An environment with the wheel and what it asks for, an empty home and an empty working directory."""

    def __init__(self, environment, home, folder):
        self.bin, self.home, self.folder = environment / "bin", home, folder

    def run(self, program, *arguments):
        """Standard output; fails with all that was printed if the status is not 0."""
        done = subprocess.run(
            [self.bin / program, *arguments],
            cwd=self.folder,
            env={"HOME": str(self.home), "PATH": os.defpath, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
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
def bare(tmp_path_factory):
    """The wheel, with the locked versions of its dependencies from uv's cache; no development tools."""
    builders = pytest.importorskip("hatchling.builders.wheel")
    root = tmp_path_factory.mktemp("bare")
    cache = Path(uv("cache", "dir"))
    if not cache.is_dir() or cache.stat().st_dev != root.stat().st_dev:
        pytest.skip(f"uv's cache {cache} is not on the disk of {root}: gigabytes would be copied")
    (wheel,) = builders.WheelBuilder(str(ROOT)).build(directory=str(root), versions=["standard"])
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    (root / "versions.txt").write_text("\n".join(re.findall(r"^[a-z0-9][^\\\n]*", lock, re.MULTILINE)))
    environment = root / "environment"
    uv("venv", "--quiet", "--python", sys.executable, environment)
    python = environment / "bin" / "python"
    uv("pip", "install", "--quiet", "--python", python, "--constraint", root / "versions.txt", wheel)
    for name in ("home", "folder"):
        (root / name).mkdir()
    yield Bare(environment, root / "home", root / "folder")
    shutil.rmtree(environment)


@pytest.mark.skipif(sys.platform == "win32", reason="the paths are those of other systems")
def test_an_installed_wheel_trains_and_compares(bare):
    assert bare.run("cnnpool", "--version") == f"cnnpool {cnnpool.__version__}\n"
    for command in ([], ["train"], ["compare"], ["choose"], ["explain"], ["probe"], ["bench"]):
        assert "usage: cnnpool" in bare.run("cnnpool", *command, "--help")
    assert not (bare.bin / "pytest").exists()
    bare.run("python", "-c", PROGRAM)
    bare.run("cnnpool", "train", "-m", "data=digits", "pool=max", "seed=0,1", "fit=smoke")
    said = bare.run("cnnpool", "compare", "outputs")
    assert "test accuracy" in said and (bare.folder / "outputs/report/report.html").is_file()
