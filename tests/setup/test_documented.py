"""The commands that README.md and docs/*.md show: each is valid, and the short ones run."""

import math
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from cnnpool.cli import COMMANDS
from cnnpool.launch import names_of
from cnnpool.launch.compose import Request, jobs_of
from cnnpool.launch.overrides import alternatives, is_choice, parse
from scripts.docs.documented import Command, commands, quick

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
PAGES += sorted(ROOT.glob("docs/provenance/*.md"))
SHOWN = [command for page in PAGES for command in commands(page)]
# Those in the comments of experiments.
for path in sorted(ROOT.glob("conf/experiment/*.yaml")):
    shown = re.findall(r"^# (cnnpool .*)", path.read_text("utf-8"), re.MULTILINE)
    SHOWN += [Command(path.name, number, text) for number, text in enumerate(shown)]
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


def unseen():
    """(name, words) of each command that trains, with those values of its lists that none before it had, or
    one; leaving out commands without any. Operators without options are the same in all experiments.
    """
    seen = set()
    for command in TRAINING:
        words = [word for word in command.shortened()[2:] if not word.startswith(("launch=", "-"))]
        place = [word for word in words if word.startswith("experiment=")]
        # In place of the experiment's own list.
        words += ["pool=max"] * (bool(place) and not any(word.startswith("pool=") for word in words))
        found, new = [], False
        for word in words:
            key, _, values = word.partition("=")
            given = [one for one in words if one.lstrip("~").startswith(f"{key}.")]
            at = (key, *given, *(place if key != "pool" else ()))
            listed = values.split(",") if re.fullmatch(r"[\w.,-]+", values) else [values]
            fresh = [value for value in listed if (*at, value) not in seen]
            seen.update((*at, value) for value in fresh)
            new |= bool(fresh) and key not in ("fit", "out", "seed")
            found.append(f"{key}={','.join(fresh or listed[:1])}" if values else word)
        if new:
            yield command, found


UNSEEN = list(unseen())


@pytest.mark.parametrize("page", sorted({command.page for command, _ in UNSEEN}))
def test_documented_trainings_compose(page, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CNNPOOL_DATA", "data")
    for command, words in UNSEEN:
        # A reader's own folder of settings is not here, nor own code, which has a test of its own, as Hydra's
        # sweepers and launchers have, which compose the jobs themselves.
        plugin = any(word.startswith("hydra/") for word in words)
        if command.page != page or page == "own_operator.md" or "--config-dir" in command.words or plugin:
            continue
        assert {word for word in command.words if word.startswith("-")} <= {"-m"}
        jobs = jobs_of(Request(words, multirun=any("," in word for word in words)))
        assert jobs, name(command)


def test_experiments_sweep_what_exists_in_as_many_jobs_as_is_said():
    jobs = {}
    for path in ROOT.glob("conf/experiment/*.yaml"):
        swept = yaml.safe_load(path.read_text("utf-8")).get("hydra", {}).get("sweeper", {}).get("params", {})
        lines = [f"{key}={values}" for key, values in swept.items()]
        axes = [alternatives(one, names_of, 999) for one in parse(lines)]
        jobs[path.stem] = math.prod(map(len, axes))
        for one in (one for axis in axes for one in axis if is_choice(one.key_or_group)):
            # Those two are of stages and of published networks alone.
            known = {*names_of(one.key_or_group)} - {"inherit", "keep"}
            assert one.value() in known, (path.name, one.input_line)
    known = {"cifar_circular": 36, "every_operator": 94, "mnist_few": 360, "mnist_operators": 120}
    assert jobs.items() >= (known | {"cifar_operators": 100, "quickstart": 30}).items()


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
    exec(compile(quick(command.text), name(command), "exec"), vars(module))
