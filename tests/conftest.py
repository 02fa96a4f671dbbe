"""Settings of all tests."""

import os
import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import settings

# Before torch starts threads of its own: a fork of a process that has some may wait for them for ever.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Under nohup runs outlive SIGHUP, and their tests would wait for what never comes.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
# A busy machine takes long for what is right.
settings.register_profile("patient", settings(), deadline=None)
settings.load_profile("patient")


ROOT = Path(__file__).parents[1]
OPERATORS = {path.stem for path in ROOT.glob("conf/pool/*.yaml")} - {"inherit"}
# One of each kind of operator; the contract of the others is for `make test-rest`.
ARCHETYPES = {"max", "avg", "strided", "blur", "max_blur", "soft", "stochastic"}
ARCHETYPES |= {"aps", "wavelet", "flc", "lip", "none", "keep"}
# Files below tests/, or test functions, for `make test-rest`, besides those marked so.
REST = (
    *("docs/", "scripts/", "tensorboard/test_browser", "fit/test_ddp", "fit/test_gpu"),
    *("launch/test_run_ray", "launch/test_slurm", "test_swap_zoo"),
    *("pool/test_disk_cache", "pool/test_export", "pool/test_processes", "pool/test_triton"),
    *("readout/test_export", "setup/test_documented", "setup/test_make", "setup/test_package"),
    *("setup/test_quickstart", "setup/test_wheel"),
    *("test_compiles_whole_and_trains_the_same", "test_exports_and_runs_at_other_batch_sizes"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--operators",
        default=None,
        help="max,blur: operators whose contract is not for the rest (default: those that differ from main)",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.option.operators is None:
        config.option.operators = ",".join(changed_operators())
    # torch scripts its own forward-mode decompositions on first use, and warns itself for it.
    config.addinivalue_line("filterwarnings", "ignore:`torch.jit.script` is deprecated")


def pytest_runtest_setup() -> None:
    # A failure comes back when its test is run alone.
    import torch

    torch.manual_seed(0)


def changed_operators() -> list[str]:
    """Operators of which a file differs from the common ancestor with main, or is new."""
    paths = git("diff", "--name-only", git("merge-base", "HEAD", "main").strip() or "HEAD")
    paths += git("ls-files", "--others", "--exclude-standard")
    stems = {Path(path).stem.removeprefix("test_") for path in paths.splitlines() if "pool/" in path}
    return sorted(stems & OPERATORS)


def git(*arguments: str) -> str:
    """The output of a git command, empty where it fails."""
    try:
        return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True).stdout
    except OSError:
        return ""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = ARCHETYPES | set(config.option.operators.split(","))
    for item in items:
        if item.get_closest_marker("slow") or is_rest(item, wanted):
            item.add_marker("rest")


def is_rest(item: pytest.Item, wanted: set[str]) -> bool:
    values = item.callspec.params.values() if hasattr(item, "callspec") else ()
    operators = {value for value in values if isinstance(value, str)} & OPERATORS
    place = item.nodeid.removeprefix("tests/")
    return bool(operators - wanted) or any(name in place for name in REST)
