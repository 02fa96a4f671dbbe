import shlex
import sys

import pytest

from cnnpool.system.next_command import from_here, next_lines, program


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The programs of a virtual environment below the working directory, not on PATH."""
    folder = tmp_path / "my env" / "bin"
    folder.mkdir(parents=True)
    for name in ("python", "cnnpool", "tensorboard"):
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "elsewhere"))
    monkeypatch.chdir(tmp_path)
    return folder


def test_what_is_not_on_the_path_is_named_by_its_own_from_here(installed):
    assert next_lines(("cnnpool", "compare", "outputs/a b"), ("tensorboard", "--logdir", "x")) == (
        "next: 'my env/bin/cnnpool' compare 'outputs/a b'\n      'my env/bin/tensorboard' --logdir x\n"
    )


def test_another_program_of_the_name_on_the_path_is_not_taken_for_ours(installed, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    (other / "cnnpool").write_text("#!/bin/sh\n")
    (other / "cnnpool").chmod(0o755)
    monkeypatch.setenv("PATH", str(other))
    assert shlex.split(program("cnnpool")) == ["my env/bin/cnnpool"]
    monkeypatch.setenv("PATH", str(installed))
    assert next_lines(("cnnpool", "explain")) == "next: cnnpool explain\n"


def test_without_a_script_the_module_is_run(installed):
    (installed / "cnnpool").unlink()
    assert program("cnnpool") == "'my env/bin/python' -m cnnpool"


def test_paths_are_short_below_the_working_directory_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert from_here(tmp_path / "a" / "b") == "a/b"
    assert from_here(tmp_path.parent / "c") == str(tmp_path.parent / "c")
