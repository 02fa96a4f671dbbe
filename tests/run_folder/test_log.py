import logging
import os
import sys

import pytest

from cnnpool.run_folder.log import logged

log = logging.getLogger("cnnpool.test")


@pytest.fixture(autouse=True)
def the_root_logger_stays():
    root = logging.getLogger()
    kept, level = root.handlers[:], root.level
    yield
    root.handlers[:] = kept
    root.setLevel(level)


def test_a_message_is_on_stdout_and_in_the_file(tmp_path, capsys):
    with logged(tmp_path) as file:
        log.info("the loss is %s", "low")
    assert file.failure is None and capsys.readouterr().out == "the loss is low\n"
    assert "INFO cnnpool.test: the loss is low" in (tmp_path / "train.log").read_text()


def test_on_a_terminal_a_message_takes_the_place_of_a_progress_bar(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda stream: True, raising=False)
    with logged(tmp_path):
        sys.stdout.write("Epoch 0: 100%")
        log.info("epoch 1")
    assert capsys.readouterr().out == "Epoch 0: 100%\r\x1b[Kepoch 1\n"
    assert "\x1b" not in (tmp_path / "train.log").read_text()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_disk_ends_nothing_and_is_known(tmp_path, capsys):
    (tmp_path / "train.log").symlink_to("/dev/full")
    with logged(tmp_path) as file:
        log.info("one")
        log.info("two")
    assert file.failure.strerror == "No space left on device"
    with logged(tmp_path / "gone") as file:
        log.info("one")
        log.info("two")
    assert isinstance(file.failure, FileNotFoundError)
    assert capsys.readouterr() == (2 * "one\ntwo\n", "")


def test_names_in_the_file_command_no_terminal(tmp_path):
    with logged(tmp_path):
        log.info("class %s", "\x1b]0;title\x07\udcff")
    assert (tmp_path / "train.log").read_text().endswith("class \\x1b]0;title\\x07\\udcff\n")
