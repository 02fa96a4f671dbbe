"""The commands that README.md and docs/*.md show: each is valid, and the short ones run."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from cnnpool.cli import COMMANDS
from cnnpool.launch import check
from cnnpool.launch.compose import Request, jobs_of
from scripts.docs.documented import commands

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
PAGES += sorted(ROOT.glob("docs/provenance/*.md"))
SHOWN = [command for page in PAGES for command in commands(page)]
TRAINING = [c for c in SHOWN if not c.program and c.words[:2] == ["cnnpool", "train"]]
# Those of compare.md need stores of other programs, those of own_operator.md a package installed:
# tests/report/test_foreign.py and tests/wiring/test_own_package.py run them.
ELSEWHERE = {"compare.md", "own_operator.md"}
PROGRAMS = [command for command in SHOWN if command.program and command.page not in ELSEWHERE]
assert len(TRAINING) > 20 < len(SHOWN) - len(TRAINING) and len(PROGRAMS) > 3


def name(command):
    return f"{command.page}:{command.line}"


@cache
def help_of(command):
    arguments = [sys.executable, "-m", "cnnpool", command, "--help"]
    return subprocess.run(arguments, capture_output=True, text=True, check=True).stdout


def unseen(words, seen):
    """``words`` with those values of their lists that no command of the same experiment had, or one of them;
    and with one operator where an earlier command swept those of the experiment.
    """
    place, found = next((word for word in words if word.startswith("experiment=")), ""), []
    if place and not any(word.startswith("pool") for word in words):
        found += ["pool=max"] * (place in seen)
        seen.add(place)
    for word in words:
        key, _, values = word.partition("=")
        listed = values.split(",") if re.fullmatch(r"[\w.,-]+", values) else [values]
        fresh = [value for value in listed if (place, key, value) not in seen]
        seen.update((place, key, value) for value in fresh)
        found.append(f"{key}={','.join(fresh or listed[:1])}" if values else word)
    return found


@pytest.mark.parametrize("page", sorted({command.page for command in TRAINING}))
def test_documented_trainings_compose(page, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CNNPOOL_DATA", "data")
    seen = set()
    for command in (command for command in TRAINING if command.page == page):
        words = command.shortened()
        # A reader's own folder of settings is not here, nor own code, which has a test of its own, as Hydra's
        # sweepers and launchers have, which compose the jobs themselves.
        plugin = any(word.startswith("hydra/") for word in words)
        if {"--config-dir", "pool=my_pool"} & set(words) or page == "own_operator.md" or plugin:
            continue
        if "--help" in words:
            assert "pool" in help_of("train")
            continue
        options = {word for word in words[2:] if word.startswith("-")}
        assert options <= {"-m"}
        overrides = [word for word in words[2:] if not word.startswith(("launch=", "-"))]
        jobs = jobs_of(Request(unseen(overrides, seen), multirun="-m" in options))
        assert jobs, name(command)
        for job in jobs:
            check.check(job.settings)


def test_documented_commands_name_what_exists():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for command in (command for command in SHOWN if not command.program and command not in TRAINING):
        program, *rest = command.words
        if program == "make":
            assert rest[0] in targets, name(command)
        elif program == "python" and rest[0] != "-m":
            assert (ROOT / rest[0]).is_file(), name(command)
        elif program == "cnnpool":
            assert rest[0] in (*COMMANDS, "--help", "--version"), name(command)
            for option in (word.partition("=")[0] for word in rest[1:] if word.startswith("--")):
                assert re.search(rf"(?<![\w-]){option}(?![\w-])", help_of(rest[0])), (name(command), option)


# In this process, where warnings of frameworks, which a user sees, are no errors.
@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("command", PROGRAMS, ids=name)
def test_a_documented_program_runs(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for package in ("optuna", "captum", "zennit"):
        if f"import {package}" in command.text or f"from {package}" in command.text:
            pytest.importorskip(package, reason=f"needs {package}")
    module = ModuleType("a_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(command.text, name(command), "exec"), vars(module))
