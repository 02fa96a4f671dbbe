"""The commands of scripts/dev.py, and the Makefile that leads to them."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ("bootstrap.py", "dev.py")


@pytest.mark.parametrize("script", SCRIPTS)
def test_python_3_6_can_read_the_script(script):
    source = (ROOT / "scripts" / script).read_text(encoding="utf-8")
    ast.parse(source, feature_version=(3, 6))
    with pytest.raises(SyntaxError):
        ast.parse(source + "\nif (n := 1): pass", feature_version=(3, 6))


@pytest.mark.parametrize("script", SCRIPTS)
def test_script_needs_the_standard_library_alone(script):
    tree = ast.parse((ROOT / "scripts" / script).read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names <= sys.stdlib_module_names | {"bootstrap"}


def test_tests_take_all_cores_unless_told_otherwise(checkout, monkeypatch):
    calls = []
    monkeypatch.setattr(checkout.dev, "setup", lambda: None)
    monkeypatch.setattr(checkout.dev, "call", lambda *command: calls.append(command[3:]) or 5)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert checkout.dev.main(["test"]) == 5 and checkout.dev.main(["test", "-k", "blur"]) == 5
    assert calls == [("-n", str(checkout.dev.workers())), ("-k", "blur")]
    assert 1 <= checkout.dev.workers() <= 8


def test_lint_looks_at_style_and_formatting_and_fails_for_either(checkout, monkeypatch):
    monkeypatch.setattr(checkout.dev, "setup", lambda: None)
    for failing in ("check", "--check"):
        monkeypatch.setattr(checkout.dev, "call", lambda *command, failing=failing: int(failing in command))
        assert checkout.dev.main(["lint"]) == 1


def test_unknown_command_is_refused_and_the_known_ones_named(checkout, refused):
    status, said = refused("tset")
    assert status == 2 and "quickstart, test, lint, setup, lock" in said


def test_help_names_every_command_and_installs_nothing(checkout, capsys):
    assert checkout.dev.main([]) == checkout.dev.main(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"\n  {command} " in said for command in checkout.dev.COMMANDS) and not checkout.venv.exists()


def test_interruption_ends_with_130(checkout, monkeypatch, refused):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(checkout.dev, "setup", interrupted)
    assert refused("test")[0] == 130


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed here")
def test_makefile_hands_every_command_to_the_script():
    for command in ("help", "quickstart", "test", "lint", "setup", "lock"):
        line = subprocess.check_output(
            ["make", "--no-print-directory", "-n", command, "PYTHON=python", "ARGS=-k blur"],
            cwd=ROOT,
            text=True,
        )
        assert line == f"python scripts/dev.py {command} -k blur\n"
