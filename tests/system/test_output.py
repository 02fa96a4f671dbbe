"""Commands whose output nobody reads, in processes of their own."""

import os
import shutil
import subprocess
import sys

import pytest

from cnnpool import cli
from cnnpool.system.output import LONGEST, shortened, visible

CNNPOOL = f"{sys.executable} -m cnnpool"


def shell(command, folder):
    """(exit status of the command before the pipe, stderr)."""
    done = subprocess.run(
        ["bash", "-c", f"{command}; exit ${{PIPESTATUS[0]}}"], cwd=folder, capture_output=True, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"}
    )  # fmt: skip
    return done.returncode, done.stderr


def test_a_reader_who_leaves_or_a_closed_output_is_no_error(tmp_path):
    # Nothing reads at all, so that the very first write fails.
    for command in ("--help", "train --cfg all"):
        assert shell(f"{CNNPOOL} {command} | true", tmp_path) == (0, "")
    assert shell(f"{CNNPOOL} --help 2>&1 | head -n 1", tmp_path) == (0, "")
    assert shell(f"{CNNPOOL} --help >&- 2>&-", tmp_path) == (0, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a device that is always full")
def test_output_that_is_lost_on_a_full_disk_is_said(tmp_path):
    status, err = shell(f"{CNNPOOL} --help > /dev/full", tmp_path)
    assert (status, err) == (1, "error: standard output: No space left on device; the rest of it is lost\n")


def test_text_that_commands_a_terminal_is_escaped():
    for text, shown in [
        ("plain, déjà vu ±\n\t", "plain, déjà vu ±\n\t"),
        ("\x1b[31mred\x1b[0m \r\x1b[Kagain\x1b[A", "\x1b[31mred\x1b[0m \r\x1b[Kagain\x1b[A"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\x1b[2Jgone \x1b[1;1H", "\\x1b[2Jgone \\x1b[1;1H"),
        ("a\x9b2Jb\x7f\x00\x08", "a\\x9b2Jb\\x7f\\x00\\x08"),
        ("gpj\u202e.exe", "gpj\\u202e.exe"),
    ]:
        assert visible(text) == shown


def test_a_long_path_keeps_its_ends():
    assert shortened("a/b") == shortened(b"a/b") == "a/b"
    short = shortened("/begin/" + 300 * "x" + "/end.png")
    assert len(short) == LONGEST and short.startswith("/begin/") and short.endswith("/end.png")


def test_names_that_are_no_utf8_or_hold_escapes_are_printed_as_escapes(tmp_path):
    status, err = shell(f"{CNNPOOL} compare $'\\xff\\e[2J\\e]0;x\\a'", tmp_path)
    assert status == 2 and "\x1b" not in err and "\\udcff\\x1b[2J\\x1b]0;x\\x07" in err


LONG, LOOP = "a" * 300, "loop"


def test_a_path_that_cannot_be_used_is_a_mistake_in_one_line(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    for command, message in [
        (f"compare {LONG}", "...aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa: File name too long"),
        (f"probe {LONG}", "aaa: File name too long"),
        (f"train --config-dir {LONG}", "aaa: File name too long"),
        (f"train out={LONG}", "File name too long; choose another folder"),
        (f"compare {LOOP}", "loop: Too many levels of symbolic links"),
        (f"probe {LOOP}", "loop: Too many levels of symbolic links"),
        (f"train out={LOOP}/x", "Too many levels of symbolic links; choose another folder"),
        (f"train hydra.run.dir={LOOP}", "Too many levels of symbolic links; choose another folder"),
        (f"bench pool --out {LOOP}/x.json", "--out loop/x.json: no such folder"),
        ("compare file/x", "file/x is not a folder: give the run's folder or one above it"),
        ("probe file/x", "file/x: Not a directory"),
    ]:
        with pytest.raises(SystemExit) as stop:
            cli.main(command.split())
        err = capfd.readouterr().err
        assert stop.value.code == 2 and message in err and err.count("\n") == 1, err
        assert err.startswith("error: ") and len(err) < 600


@pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv takes root's right to read everything away")
def test_a_folder_that_may_not_be_read_is_not_called_missing_or_empty(tmp_path):
    (tmp_path / "locked").mkdir(mode=0)
    without = "setpriv --bounding-set=-dac_override,-dac_read_search " if os.getuid() == 0 else ""
    for command in ("compare locked", "train out=locked/x"):
        status, err = shell(f"{without}{CNNPOOL} {command}", tmp_path)
        assert status == 2 and "Permission denied" in err and err.count("\n") == 1, err
