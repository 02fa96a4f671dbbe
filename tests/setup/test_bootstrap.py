"""How a checkout is set up: what is refused, what is installed, and that a second call has nothing to do."""

import subprocess
import sys
from pathlib import Path

import pytest


def pythons(checkout, monkeypatch, **known):
    """Make ``known`` (``this`` or a command's name: version, has_venv) the only Pythons of the machine."""
    found = checkout.bootstrap.Found
    table = {
        sys.executable if name == "this" else name.replace("_", "."): found(*what, f"/pythons/{name}")
        for name, what in known.items()
    }
    monkeypatch.setattr(checkout.bootstrap, "probe", lambda command: table.get(command[0]))


def test_old_python_is_refused_when_there_is_no_other(checkout, monkeypatch, refused):
    pythons(checkout, monkeypatch, this=((3, 9), True), python3=((2, 7), True))
    status, said = refused("test")
    assert status == 2 and "Python 3.11 or newer is needed" in said
    assert not checkout.venv.exists()


@pytest.mark.parametrize(
    ("known", "chosen"),
    [
        ({"this": ((3, 12), True), "python3_13": ((3, 13), True)}, "this"),
        ({"this": ((3, 9), True), "python3_12": ((3, 12), True)}, "python3_12"),
        ({"this": ((3, 14), True), "python3_11": ((3, 11), True)}, "python3_11"),
        ({"this": ((3, 14), True), "python3": ((3, 14), True)}, "this"),
        ({"this": ((3, 12), False), "python3_11": ((3, 11), True)}, "python3_11"),
    ],
)
def test_a_python_from_3_11_to_3_13_is_preferred_and_this_one_first(checkout, monkeypatch, known, chosen):
    pythons(checkout, monkeypatch, **known)
    assert checkout.bootstrap.choose_python(uv=None) == f"/pythons/{chosen}"


def test_python_without_venv_is_refused_with_the_remedy_unless_uv_is_there(checkout, monkeypatch, refused):
    pythons(checkout, monkeypatch, this=((3, 12), False))
    monkeypatch.setattr(checkout.bootstrap, "find_uv", lambda: None)
    status, said = refused("setup")
    assert status == 2 and "sudo apt install python3.12-venv" in said
    assert checkout.bootstrap.choose_python(uv="/opt/uv") == "/pythons/this"


def test_probe_reads_a_real_python_and_survives_a_missing_one(checkout):
    found = checkout.bootstrap.probe([sys.executable])
    assert found.version == sys.version_info[:2] and Path(found.path).exists()
    assert checkout.bootstrap.probe([str(checkout.root / "no-such-python")]) is None
    assert checkout.bootstrap.probe([sys.executable, "-c", "raise SystemExit(127)"]) is None


def test_old_uv_on_path_is_not_used(checkout, monkeypatch):
    monkeypatch.setattr(checkout.bootstrap.shutil, "which", lambda name: "/opt/uv")
    for answer, usable in [
        ("uv 0.13.8 (linux)", True),
        ("uv 1.0.0", True),
        ("uv 0.4.30", False),
        ("", False),
    ]:
        monkeypatch.setattr(checkout.bootstrap, "output", lambda *command, answer=answer: answer)
        assert checkout.bootstrap.find_uv() == ("/opt/uv" if usable else None)


def test_too_little_disk_is_refused_before_anything_is_made(checkout, steps, free_disk, monkeypatch, refused):
    free_disk(1.5e9)
    monkeypatch.setattr(checkout.bootstrap.sys, "platform", "linux")
    status, said = refused("setup")
    assert status == 2 and "7.0 GB of disk space are needed" in said and "1.5 GB are free" in said
    assert not checkout.venv.exists() and steps == []


def test_less_disk_is_needed_without_cuda(checkout, free_disk, monkeypatch):
    free_disk(2.5e9)
    monkeypatch.setattr(checkout.bootstrap.sys, "platform", "linux")
    with pytest.raises(checkout.bootstrap.Stop):
        checkout.bootstrap.check_room()
    monkeypatch.setenv("CNNPOOL_TORCH", "cpu")
    checkout.bootstrap.check_room()


def test_broken_or_old_python_in_the_venv_is_refused(checkout, monkeypatch, refused):
    checkout.make_venv()
    for what in (None, checkout.bootstrap.Found((3, 10), True, "/old")):
        monkeypatch.setattr(checkout.bootstrap, "probe", lambda command, what=what: what)
        status, said = refused("setup")
        assert status == 2 and "remove it" in said and (checkout.venv / "mine.txt").exists()


def test_new_checkout_is_installed_by_hash_and_stamped_at_the_end(checkout, steps):
    checkout.bootstrap.setup()
    create, locked, own, compiled = [command for command, _ in steps]
    assert create[:2] == ["/opt/uv", "venv"]
    assert {"--require-hashes", "--compile-bytecode", str(checkout.root / "requirements.lock")} <= {*locked}
    assert {"--no-deps", "--editable", str(checkout.root)} <= {*own}
    assert "compileall" in compiled
    assert {stamp for _, stamp in steps} == {"unfinished"}
    assert checkout.bootstrap.ready()


def test_without_uv_the_locked_uv_is_installed_by_hash(checkout, steps, monkeypatch):
    monkeypatch.setattr(checkout.bootstrap, "find_uv", lambda: None)
    checkout.bootstrap.setup()
    create, _, pip = [command for command, _ in steps][:3]
    assert create[1:3] == ["-m", "venv"] and "--require-hashes" in pip
    first, *hashes = Path(pip[-1]).read_text().split(" \\\n")
    assert first.startswith("uv==") and len(hashes) > 5 and all("--hash=sha256:" in line for line in hashes)


def test_cpu_choice_keeps_the_locked_versions_and_asks_for_no_hash(checkout, steps, monkeypatch):
    monkeypatch.setenv("CNNPOOL_TORCH", "cpu")
    checkout.bootstrap.setup()
    command = steps[1][0]
    assert command[command.index("--torch-backend") + 1] == "cpu" and "--require-hashes" not in command
    versions = Path(command[command.index("--constraints") + 1]).read_text()
    assert "\ntorch==" in versions and "hash" not in versions and "\\" not in versions


def test_unknown_torch_choice_is_refused(checkout, steps, monkeypatch, refused):
    monkeypatch.setenv("CNNPOOL_TORCH", "tpu")
    status, said = refused("setup")
    assert status == 2 and "'tpu'" in said


def test_interrupted_install_starts_over(checkout, steps):
    checkout.make_venv(stamp="unfinished")
    checkout.bootstrap.setup()
    assert not (checkout.venv / "mine.txt").exists() and checkout.bootstrap.ready()


@pytest.mark.parametrize("stamp", [None, "of an older lock"])
def test_whole_venv_is_brought_up_to_date_and_not_removed(checkout, steps, stamp):
    checkout.make_venv(stamp=stamp)
    checkout.bootstrap.setup()
    assert (checkout.venv / "mine.txt").exists() and checkout.bootstrap.ready()
    assert "venv" not in steps[0][0]


def test_second_call_starts_nothing(checkout, steps, monkeypatch):
    checkout.bootstrap.setup()
    monkeypatch.setattr(subprocess, "Popen", None)
    steps.clear()
    checkout.bootstrap.setup()
    assert steps == []


@pytest.mark.parametrize("name", ["requirements.lock", "pyproject.toml", ".venv/pyvenv.cfg"])
def test_stamp_is_of_no_use_after_a_change(checkout, name):
    checkout.make_venv()
    checkout.stamp.write_text(checkout.bootstrap.fingerprint())
    assert checkout.bootstrap.ready()
    (checkout.root / name).write_text("altered")
    assert not checkout.bootstrap.ready()


def test_stamp_is_of_no_use_for_the_other_torch_or_without_its_python(checkout, monkeypatch):
    checkout.make_venv()
    checkout.stamp.write_text(checkout.bootstrap.fingerprint())
    with monkeypatch.context() as patch:
        patch.setenv("CNNPOOL_TORCH", "cpu")
        assert not checkout.bootstrap.ready()
    checkout.bootstrap.PYTHON.unlink()
    assert not checkout.bootstrap.ready()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("cause: client error (Connect)\n  cause: dns error", "registry cannot be reached"),
        ("NewConnectionError('...: [Errno 101] Network is unreachable')", "registry cannot be reached"),
        ("error: failed to write\n  cause: No space left on device (os error 28)", "disk is full"),
        ("× Failed to download\n Hash mismatch for `torch==2.15.0`", "refused"),
        ("error: something nobody thought of", "the installation failed"),
    ],
)
def test_failed_step_ends_in_one_line_with_the_log(checkout, monkeypatch, refused, said, reason):
    checkout.make_venv()
    checkout.bootstrap.LOG.write_text("")
    step = checkout.bootstrap.run
    script = f"import sys; sys.stdout.buffer.write({said.encode()!r}); sys.exit(3)"
    monkeypatch.setattr(checkout.bootstrap, "setup", None)
    monkeypatch.setattr(checkout.dev, "setup", lambda: step(sys.executable, "-c", script))
    status, line = refused("setup")
    assert status == 1 and reason in line and str(checkout.bootstrap.LOG) in line
    assert checkout.bootstrap.LOG.read_text(encoding="utf-8") == said


def test_real_uv_without_a_registry_is_told_apart(checkout, monkeypatch, refused):
    uv = pytest.importorskip("uv").find_uv_bin()
    # Port 9 of this very machine: nobody answers there, so nothing leaves the machine.
    for name, value in {"UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple", "UV_HTTP_RETRIES": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("UV_CACHE_DIR", str(checkout.root / "cache"))
    monkeypatch.setattr(checkout.bootstrap, "find_uv", lambda: uv)
    monkeypatch.setattr(checkout.bootstrap, "check_room", lambda: None)
    status, line = refused("setup")
    assert status == 1 and "registry cannot be reached" in line
    assert checkout.stamp.read_text() == "unfinished"
