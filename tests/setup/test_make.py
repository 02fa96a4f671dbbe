"""The Makefile: which Python it takes, what it refuses, what it installs and when it has nothing to do."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("make", "sh", "sed", "rm", "mkdir", "touch", "cp")
# A Python or a uv that only writes down how it was called; `-c` asks a Python whether it is new enough.
FAKE = """#!/bin/sh
case "$2" in
  *version_info*) exit {old} ;;
  *ready*) cat .venv/ready; exit ;;
esac
echo "$(test -e .venv/unfinished && echo unfinished:) ${{0##*/}} $*" >> calls
test "$2" != venv || {{
  mkdir -p .venv/bin; for name in python uv ruff vulture cnnpool; do cp "$0" .venv/bin/$name; done; }}
case "$*" in *"$FAILS"*) exit 1 ;; esac
"""

WITHOUT_TOOLS = sys.platform == "win32" or any(shutil.which(tool) is None for tool in TOOLS)
pytestmark = pytest.mark.skipif(WITHOUT_TOOLS, reason="needs make and sh")


class Checkout:
    """The Makefile in a folder of its own, on a machine that has nothing but make, sh and fake Pythons."""

    def __init__(self, root):
        self.root, self.venv, self.machine = root / "checkout", root / "checkout" / ".venv", root / "bin"
        self.machine.mkdir()
        self.root.mkdir()
        for tool in TOOLS:
            (self.machine / tool).symlink_to(shutil.which(tool))
        (self.machine / "cat").symlink_to(shutil.which("cat"))
        for name in ("Makefile", "requirements.lock", "pyproject.toml"):
            shutil.copy(ROOT / name, self.root)

    def python(self, name="python3", old=False, folder=None):
        path = (folder or self.machine) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(FAKE.format(old=int(old)))
        path.chmod(0o755)

    def make(self, *arguments, fails="no such call", **environment):
        """Exit status, standard output and error, and the calls that were made."""
        (self.root / "calls").write_text("")
        done = subprocess.run(
            [self.machine / "make", *arguments], cwd=self.root,
            env={"PATH": str(self.machine), "FAILS": fails, **environment}, capture_output=True, text=True
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr, (self.root / "calls").read_text().splitlines()


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


@pytest.fixture
def installed(checkout):
    """A checkout that has been set up, with something of the user's in its environment."""
    checkout.python()
    assert checkout.make("setup")[0] == 0
    # A second call installs nothing.
    assert checkout.make("setup")[3] == []
    (checkout.venv / "mine.txt").write_text("mine")
    return checkout


def test_old_python_is_refused_by_one_line_when_there_is_no_other(checkout):
    checkout.python(old=True)
    status, _, said, calls = checkout.make("test")
    assert status == 2 and not checkout.venv.exists() and calls == []
    assert said.splitlines()[0] == "cnnpool: Python 3.11 or newer is needed: install one, then try again"


@pytest.mark.parametrize("newer", ["python3.13", "python3.12", "python3.11"])
def test_newer_python_is_found_beside_an_old_one(checkout, newer):
    checkout.python(old=True)
    checkout.python(newer)
    status, _, _, calls = checkout.make("setup")
    assert status == 0 and calls[0] == f"unfinished: {newer} -m venv .venv"


def test_new_checkout_is_installed_by_hash_and_ready_only_at_the_end(checkout):
    checkout.python()
    status, said, _, calls = checkout.make("setup")
    assert status == 0 and said.splitlines()[-1] == f"cnnpool: ready in {checkout.venv}"
    assert all(call.startswith("unfinished: ") for call in calls)
    uv, locked, own, compiled = calls[-4:]
    assert "-m pip install" in uv and "--require-hashes --requirement .venv/uv.txt" in uv
    assert "uv pip install" in locked and "--compile-bytecode" in locked
    assert "--require-hashes --requirements requirements.lock" in locked
    assert "--no-deps" in own and own.endswith("--editable .") and "compileall" in compiled
    assert not (checkout.venv / "unfinished").exists()


def test_without_torchs_own_server_the_ordinary_build_is_taken_with_a_line(checkout):
    checkout.python()
    status, said, _, calls = checkout.make("setup", CNNPOOL_TORCH="cpu", fails="--torch-backend")
    assert status == 0 and "gave no build without CUDA: taking the ordinary one" in said
    assert "--require-hashes" in calls[-3] and calls[-3].endswith("--requirements requirements.lock")


def test_torch_for_cpus_goes_without_hashes_alone(checkout):
    checkout.python()
    status, _, _, calls = checkout.make("setup", CNNPOOL_TORCH="cpu")
    assert status == 0 and all("--no-deps" in call for call in calls[-4:-1])
    assert "--require-hashes" in calls[-4] and "--requirements .venv/others.txt" in calls[-4]
    assert "--torch-backend cpu" in calls[-3] and "--requirements .venv/torch.txt" in calls[-3]
    lock = (ROOT / "requirements.lock").read_text()
    torch, others = ((checkout.venv / f"{name}.txt").read_text() for name in ("torch", "others"))
    pins = re.findall(r"^torch(?:vision)?==\S+", lock, re.MULTILINE)
    assert torch.splitlines() == pins and len(pins) == 2
    block = re.compile(r"^\S+==.*(?:\n    --hash.*)*", re.MULTILINE)
    blocks = block.findall(lock)
    of_torch = re.compile(r"(torch|torchvision|triton|(nvidia|cuda)-.*)==")
    kept = [one for one in blocks if not of_torch.match(one)]
    assert block.findall(others) == kept and 100 < len(kept) < len(blocks) - 15
    assert all("--hash=sha256:" in one for one in kept)


@pytest.mark.parametrize("change", ["requirements.lock", "pyproject.toml", "torch", "move"])
def test_changed_checkout_is_brought_up_to_date_in_place(installed, change):
    if change == "move":
        installed.root = installed.root.rename(installed.root.with_name("moved"))
        installed.venv = installed.root / ".venv"
    elif change != "torch":
        later = (installed.venv / "ready").stat().st_mtime + 10
        os.utime(installed.root / change, (later, later))
    calls = installed.make("setup", **({"CNNPOOL_TORCH": "cpu"} if change == "torch" else {}))[3]
    assert calls[-2].endswith("--editable .") and (installed.venv / "mine.txt").exists()
    assert not any("-m venv" in call for call in calls)


@pytest.mark.parametrize(
    ("fails", "line"),
    [
        ("--requirement .venv/uv.txt", "no uv from the package registry: check the network or proxy"),
        ("--requirements requirements.lock", "the installation failed for the reason above: mend it"),
        ("--editable .", "the installation failed for the reason above: mend it"),
    ],
)
def test_failed_step_ends_in_one_line_and_starts_over(checkout, fails, line):
    checkout.python()
    status, _, said, _ = checkout.make("test", fails=fails)
    assert status == 2 and said.splitlines()[0] == f"cnnpool: {line}, then try again"
    (checkout.venv / "half.txt").write_text("half a package")
    assert "-m venv" in checkout.make("setup")[3][0]
    assert not (checkout.venv / "half.txt").exists() and (checkout.venv / "ready").exists()


@pytest.mark.parametrize("broken", [True, False], ids=["broken", "old"])
def test_environment_with_a_broken_or_old_python_is_refused_and_kept(checkout, broken):
    checkout.python()
    if broken:
        checkout.venv.mkdir()
    else:
        checkout.python("python", old=True, folder=checkout.venv / "bin")
    (checkout.venv / "mine.txt").write_text("mine")
    status, _, said, calls = checkout.make("setup")
    assert status == 2 and "remove .venv, then try again" in said and calls == []
    assert (checkout.venv / "mine.txt").exists()


def test_tests_take_all_cores_unless_told_otherwise(installed):
    everywhere = " python -m pytest -n auto --maxprocesses 8 --dist worksteal"
    assert installed.make("test")[3] == [f"{everywhere} -m not rest"]
    assert installed.make("test-rest")[3] == [f"{everywhere} -m rest"]
    for tests in ("test", "test-rest"):
        assert installed.make(tests, "ARGS=-k blur")[3] == [" python -m pytest -k blur"]


def test_quickstart_trains_one_seed_with_pictures_then_all_and_compares(installed):
    every = ["train -m experiment=quickstart seed=0 fit.pictures=true", "train -m experiment=quickstart"]
    compared = "compare outputs/quickstart/digits --baseline max"
    assert installed.make("quickstart")[3] == [f" cnnpool {one}" for one in (*every, compared)]
    assert installed.make("quickstart", fails="pictures")[0] == 2
