"""Settings of all tests."""

import atexit
import gc
import logging
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from hypothesis import settings

from cnnpool import schema

# Before torch starts threads of its own: a fork of a process that has some may wait for them for ever.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Under nohup runs outlive SIGHUP, started by a script SIGINT: their tests would wait for what never comes.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
# A busy machine takes long for what is right.
settings.register_profile("patient", settings(), deadline=None)
settings.load_profile("patient")


TESTS = Path(__file__).parent
ROOT = TESTS.parent
OPERATORS = {*schema.names("pool"), "keep"}
GRAPHS = {"test_compiles_whole_and_trains_the_same"}
# One of each kind of operator; the contract of the others is for `make test-rest`.
ARCHETYPES = {"max", "avg", "strided", "blur", "max_blur", "soft", "stochastic"}
ARCHETYPES |= {"aps", "wavelet", "flc", "lip", "none", "keep"}
# Files below tests/ that are for `make test-rest`, besides tests that are marked so.
REST_ROOMS = ("docs", "scripts")
REST = {
    "tests": "completion", "bench": "pool_suite", "choose": "command live", "explain": "catalogue",
    "fit": "ddp foreign_probe gpu loggers resume", "inspection": "examine maps",
    "launch": "folder plugins run_ray slurm sweep untrusted worker",
    "pool": "compiling export extremes integers kernels_choice kernels_curved pages processes triton",
    "readout": "export", "report": "outputs", "setup": "documented make package",
    "system": "load output process", "tensorboard": "browser sweeps",
    "wiring": "command_keys every_key probe_keys"
}  # fmt: skip
# Tests of those files that stay, so that every command runs once; tests/wiring resumes.
KEPT = {
    "choose/test_command.py": "test_a_study_of_digits_ends_with_a_report_and_goes_on_where_it_was",
    "inspection/test_examine.py": "test_a_run_is_measured_as_its_model_in_memory",
}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores, since many tests wait for other processes."""
    return (os.cpu_count() or 1) + 1


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
    # A training in this process may have left it on, and Hydra quietens logs.
    torch.use_deterministic_algorithms(False)
    logging.disable(logging.NOTSET)
    # A command in this process logs to the stream of its test, which has been closed.
    for handler in logging.root.handlers[:]:
        if type(handler) is logging.StreamHandler:
            logging.root.removeHandler(handler)
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith("cnnpool") and isinstance(logger, logging.Logger):
            logger.disabled = False
            logger.setLevel(logging.NOTSET)


def changed_operators() -> list[str]:
    """Operators of which a file differs from the common ancestor with main, or is new."""
    paths = git("diff", "--name-only", git("merge-base", "HEAD", "main").strip() or "HEAD")
    paths += git("ls-files", "--others", "--exclude-standard")
    stems = {Path(path).stem.removeprefix("test_") for path in paths.splitlines() if "pool/" in path}
    # Siblings share a module.
    table = (ROOT / "cnnpool" / "pool" / "__init__.py").read_text("utf-8")
    imported = re.findall(r"from cnnpool\.pool\.(\w+) import (\w+)", table)
    changed = {name for module, name in imported if module in stems}
    return sorted(
        stem for stem, name in re.findall(r'"(\w+)": (\w+),', table) if name in changed or stem in stems
    )


def git(*arguments: str) -> str:
    """The output of a git command, empty where it fails."""
    try:
        return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True).stdout
    except OSError:
        return ""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    # To import them all takes a good part of the time that the others run.
    if config.option.markexpr != "not rest" or collection_path.suffix != ".py":
        return None
    kept = collection_path.relative_to(TESTS).as_posix() in KEPT
    return (of_the_rest(collection_path) and not kept) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    others = OPERATORS - ARCHETYPES - set(config.option.operators.split(","))
    for item in items:
        name = item.name.partition("[")[0]
        values = item.callspec.params.values() if hasattr(item, "callspec") else ()
        operators = others.intersection(value for value in values if isinstance(value, str))
        slow = item.get_closest_marker("slow") is not None
        if name not in KEPT.values() and (slow or operators or name in GRAPHS or of_the_rest(item.path)):
            item.add_marker("rest")
    # Long ones first: the last to end would run alone.
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish() -> None:
    # All modules and tests, which the collector would look through with each test: a twelfth of the time.
    gc.collect()
    gc.freeze()
    # Extensions report objects still frozen at exit as leaks.
    atexit.register(gc.unfreeze)


def of_the_rest(path: Path) -> bool:
    room, stem = path.parent.name, path.stem.removeprefix("test_")
    return room in REST_ROOMS or stem in REST.get(room, "").split()
